"""The vendor's meshes are drawn where their files are at hand, and never touch the physics."""

import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from application.robots import g1
from application.robots.builder import build_scene
from application.robots.mesh_files import find_meshes
from application.robots.reader import load_figures, parse_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions
from domain.errors import ConfigurationError
from tests.application.robots.stl_files import write_stl

Compile = Callable[..., mujoco.MjModel]


def shapes(text: str, body: str) -> list[str]:
    """Return what is drawn on a body: a mesh's name, else the type of the shape."""
    element = next(item for item in ElementTree.fromstring(text).iter("body") if item.get("name") == body)
    return [geom.get("mesh") or geom.attrib["type"] for geom in element.findall("geom") if geom.get("group") == "2"]


def build(folder: Path) -> SceneModel:
    return g1.build(timestep=0.01, mesh_dir=str(folder))


def drawn(scene: SceneModel) -> str:
    assert scene.drawn is not None
    return scene.drawn


def test_without_a_folder_simple_shapes_are_drawn() -> None:
    scene = g1.build(timestep=0.01)

    assert scene.drawn is None
    assert "mesh" not in scene.mjcf


def test_a_body_with_a_file_shows_its_mesh_and_another_one_its_simple_shapes(tmp_path: Path) -> None:
    write_stl(tmp_path / "left_knee_link.STL")

    scene = build(tmp_path)

    assert shapes(drawn(scene), "left_knee_link") == ["left_knee_link"]
    assert shapes(drawn(scene), "right_knee_link") == shapes(scene.mjcf, "right_knee_link")


def test_the_robot_keeps_its_simple_head_until_the_head_has_a_file_too(tmp_path: Path) -> None:
    write_stl(tmp_path / "torso_link.STL")
    without = shapes(drawn(build(tmp_path)), "torso_link")
    write_stl(tmp_path / "head_link.STL")
    both = shapes(drawn(build(tmp_path)), "torso_link")

    assert without.count("ellipsoid") == 4  # hood, face, chin and eye line
    assert without[-1] == "torso_link"
    assert both == ["torso_link", "head_link"]


def test_the_physics_is_the_same_text_with_and_without_meshes(tmp_path: Path) -> None:
    write_stl(tmp_path / "pelvis.STL")

    assert build(tmp_path).mjcf == g1.build(timestep=0.01).mjcf


def test_the_drawn_scene_is_the_same_robot(tmp_path: Path, compiled: Compile) -> None:
    for name in ("pelvis", "torso_link", "left_rubber_hand"):
        write_stl(tmp_path / f"{name}.STL")
    scene = build(tmp_path)

    physics = compiled(scene)
    full = mujoco.MjModel.from_xml_string(drawn(scene))
    spec = mujoco.MjSpec.from_string(drawn(scene))
    spec.discard_visual()
    stripped = spec.compile()

    assert full.nmesh == 3
    assert (full.nq, full.nv, full.nu, full.nbody) == (physics.nq, physics.nv, physics.nu, physics.nbody)
    np.testing.assert_array_equal(full.body_mass, physics.body_mass)
    np.testing.assert_array_equal(full.body_inertia, physics.body_inertia)
    np.testing.assert_array_equal(stripped.geom_size, physics.geom_size)
    assert stripped.nmesh == 0


def test_a_mesh_lies_where_the_vendor_mounts_it(tmp_path: Path) -> None:
    write_stl(tmp_path / "right_rubber_hand.STL", size=0.08)
    scene = build(tmp_path)

    model = mujoco.MjModel.from_xml_string(drawn(scene))

    geom = next(i for i in range(model.ngeom) if model.geom_type[i] == mujoco.mjtGeom.mjGEOM_MESH)
    assert model.body(model.geom_bodyid[geom]).name == "right_wrist_yaw_link"
    # The engine moves a mesh to the centroid of its surface, here of a corner tetrahedron: c in x, y and z. Three
    # faces of area 1/2 have centroids at 0, 1/3, 1/3 and one of area sqrt(3)/2 at 1/3 each.
    c = 0.08 / 3 * (2 * 0.5 + np.sqrt(3) / 2) / (3 * 0.5 + np.sqrt(3) / 2)
    np.testing.assert_allclose(model.geom_pos[geom], [0.0415 + c, -0.003 + c, c], atol=1e-7)


@pytest.mark.parametrize("file", ["waist_yaw_link.STL", "waist_yaw_link.stl", "waist_yaw_link_rev_1_0.STL"])
def test_file_names_may_carry_the_revision_and_either_case(tmp_path: Path, file: str) -> None:
    write_stl(tmp_path / file)

    assert find_meshes(load_figures("g1.toml"), str(tmp_path)) == {"waist_yaw_link": tmp_path / file}


def test_of_two_revisions_the_one_of_this_robot_is_taken(tmp_path: Path) -> None:
    for file in ("torso_link.STL", "torso_link_rev_1_0.STL", "torso_link_23dof_rev_1_0.STL"):
        write_stl(tmp_path / file)

    found = find_meshes(load_figures("g1.toml"), str(tmp_path))

    assert found == {"torso_link": tmp_path / "torso_link_rev_1_0.STL"}


def test_every_body_has_a_mesh_of_its_name_and_each_shape_gives_way_to_one() -> None:
    figures = load_figures("g1.toml")

    assert [body.meshes[0].name for body in figures.bodies] == [body.name for body in figures.bodies]
    assert {visual.mesh for body in figures.bodies for visual in body.visuals} >= {"head_link", "left_rubber_hand"}


def test_a_relative_folder_is_found_from_anywhere_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meshes").mkdir()
    write_stl(tmp_path / "meshes" / "pelvis.STL")
    monkeypatch.chdir(tmp_path)
    scene = g1.build(timestep=0.01, mesh_dir="meshes")
    monkeypatch.chdir(os.sep)

    assert mujoco.MjModel.from_xml_string(drawn(scene)).nmesh == 1


def test_a_missing_folder_is_named_with_the_expected_files(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"

    with pytest.raises(ConfigurationError, match=f"mesh_dir '{missing}' is no folder: name the one with pelvis.STL"):
        build(missing)


def test_a_folder_without_a_fitting_file_is_named_with_the_expected_files(tmp_path: Path) -> None:
    write_stl(tmp_path / "base.STL")
    (tmp_path / "pelvis.obj").write_text("")
    (tmp_path / "torso_link.STL").mkdir()

    with pytest.raises(
        ConfigurationError, match=rf"mesh_dir '{tmp_path}' has no mesh of g1.toml \(expected pelvis.STL, "
    ):
        build(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    write_stl(tmp_path / "pelvis.STL")

    with pytest.raises(ConfigurationError, match="is no folder"):
        build(tmp_path / "pelvis.STL")


def test_a_robot_without_meshes_takes_no_folder(toy: str, tmp_path: Path) -> None:
    options = SceneOptions(timestep=0.01, mesh_dir=str(tmp_path))

    with pytest.raises(ConfigurationError, match="toy.toml lists no meshes: leave mesh_dir out"):
        build_scene(parse_figures(toy, file="toy.toml"), options)
