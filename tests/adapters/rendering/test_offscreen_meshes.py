"""The vendor's meshes in real pictures; skipped with the reason where no GL backend works."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from adapters.mujoco.compiled_model import compile_physics
from adapters.rendering import gl
from application.robots import g1
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError
from tests.application.robots.stl_files import write_stl

SIZE = (96, 72)


@pytest.fixture
def backend() -> str:
    try:
        return gl.choose_backend()
    except ConfigurationError as error:
        pytest.skip(str(error))


def picture(scene: SceneModel, backend: str) -> npt.NDArray[np.int32]:
    from adapters.rendering.offscreen import OffscreenRenderer  # it loads GL

    with OffscreenRenderer(scene, backend, SIZE) as renderer:
        return renderer.draw(np.array(scene.index.default_qpos)).astype(np.int32)


def test_a_mesh_shows_in_place_of_the_simple_head(tmp_path: Path, backend: str) -> None:
    write_stl(tmp_path / "head_link.STL", size=0.6)

    simple = picture(g1.build(timestep=0.01), backend)
    meshed = picture(g1.build(timestep=0.01, mesh_dir=str(tmp_path)), backend)

    changed = np.abs(simple - meshed).sum(axis=2) > 60
    assert 50 < changed.sum() < 3000
    dark = meshed.sum(axis=2) < 200  # the vendor's head is dark, and this one is huge
    assert dark[:36].sum() > 2 * (simple.sum(axis=2) < 200)[:36].sum()


def test_a_broken_mesh_file_is_named(tmp_path: Path, backend: str) -> None:
    (tmp_path / "head_link.STL").write_text("solid nothing\n")
    scene = g1.build(timestep=0.01, mesh_dir=str(tmp_path))

    with pytest.raises(ConfigurationError, match=r"cannot be drawn.*head_link.*: replace the mesh file"):
        picture(scene, backend)


def test_physics_does_not_open_the_mesh_files(tmp_path: Path) -> None:
    broken = tmp_path / "pelvis.STL"
    broken.write_text("no mesh")
    scene = g1.build(timestep=0.01, mesh_dir=str(tmp_path))
    broken.unlink()

    model = compile_physics(scene)

    assert (model.nq, model.nmesh, model.ngeom) == (36, 0, len(scene.index.geoms))
