"""Conversion: what comes out is what a good file of the same motion holds, whatever was wrong with what went in."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from application.motion.check import check_motion
from application.motion.convert import ConvertOptions, convert_arrays, convert_table
from application.motion.ports import MotionTable
from application.motion.schema import ReadMotion
from application.motion.trajectory import trajectory_of
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from domain.rotations import quat_angle
from tests.support.motion_files import (
    Arrays,
    builtin,
    g1_kinematics,
    g1_robot,
    g1_scene,
    opened,
    unnamed,
    with_free_joint,
)

INDEX = g1_scene().index
SQUAT = builtin("squat")


def convert(arrays: Arrays, **options: object) -> ReadMotion:
    return convert_arrays(opened(arrays), INDEX, g1_kinematics(), dataclasses.replace(ConvertOptions(), **options))  # type: ignore[arg-type]


def assert_same(found: MotionClip, wanted: MotionClip, *, atol: float = 1e-5) -> None:
    assert (found.fps, found.frames, found.bodies) == (wanted.fps, wanted.frames, wanted.bodies)
    torch.testing.assert_close(found.joint_pos, wanted.joint_pos, atol=atol, rtol=0)
    torch.testing.assert_close(found.body_pos, wanted.body_pos, atol=atol, rtol=0)
    assert float(quat_angle(found.body_quat, wanted.body_quat).max()) < max(1e-3, atol)


def lifted(height: float) -> Arrays:
    arrays = unnamed(SQUAT)
    arrays["body_pos_w"] = arrays["body_pos_w"] + np.array([0.0, 0.0, height], dtype=np.float32)
    return arrays


def with_52_bodies() -> Arrays:
    arrays = unnamed(SQUAT)
    return {k: np.concatenate([v, v[:, :21]], axis=1) if k.startswith("body_") else v for k, v in arrays.items()}


def mixed() -> Arrays:
    order = [0, *range(30, 0, -1)]
    order[1], order[30] = 1, 30
    return {k: v[:, order] if k.startswith("body_") else v for k, v in unnamed(SQUAT).items()}


CASES: dict[str, tuple[Arrays, dict[str, object]]] = {
    "good": (unnamed(SQUAT), {}),
    "free joint, named": (with_free_joint(SQUAT), {}),
    "free joint, not named": (
        {**unnamed(SQUAT), "joint_pos": with_free_joint(SQUAT)["joint_pos"]},
        {"drop_free_joint": True},
    ),
    "52 bodies": (with_52_bodies(), {"root_body": 1}),
    "half a metre high": (lifted(0.5), {"root_height_offset": -0.5}),
    "centimetres": ({**unnamed(SQUAT), "body_pos_w": unnamed(SQUAT)["body_pos_w"] * 100.0}, {"scale": 0.01}),
    "w last": (
        {**unnamed(SQUAT), "body_quat_w": unnamed(SQUAT)["body_quat_w"][..., [1, 2, 3, 0]]},
        {"quat_order": "xyzw"},
    ),
    "degrees": ({**unnamed(SQUAT), "joint_pos": np.rad2deg(unnamed(SQUAT)["joint_pos"])}, {"degrees": True}),
    "doubled rate": ({**unnamed(SQUAT), "fps": np.array([100])}, {"fps_in": 50.0}),
    "no rate": ({k: v for k, v in unnamed(SQUAT).items() if k != "fps"}, {"fps_in": 50.0}),
    "bodies in another order": (mixed(), {}),
    "no velocities": ({k: v for k, v in unnamed(SQUAT).items() if "vel" not in k}, {}),
    "root and joints of another project": (
        {
            "fps": np.array(50),
            "root_pos": SQUAT.body_pos[:, 0].numpy(),
            "root_rot": SQUAT.body_quat[:, 0, [1, 2, 3, 0]].numpy(),
            "dof_pos": SQUAT.joint_pos.numpy(),
        },
        {"quat_order": "xyzw"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_fault_is_mended_by_its_option_and_the_check_is_content(case: str) -> None:
    arrays, options = CASES[case]

    found = convert(arrays, **options)

    assert_same(found.clip, SQUAT)
    report = check_motion(ReadMotion(clip=found.clip), INDEX, g1_kinematics(), 50.0)
    assert report.findings == ()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("free joint, not named", r"joint_pos has shape \(341, 36\), expected \(frames, 29\): give --drop-free-joint"),
        ("52 bodies", r"body_pos_w has shape \(341, 52, 3\), expected \(frames, 31, 3\): give --root-body INDEX"),
        ("centimetres", r"in centimetres.*: give --scale 0\.01"),
        ("w last", r"x y z w.*: give --quat-order xyzw"),
        ("degrees", r"in degrees.*: give --degrees"),
        ("no rate", r"fps is missing.*--fps-in N"),
        ("root and joints of another project", r"give --quat-order wxyz or xyzw"),
    ],
)
def test_what_an_option_has_to_mend_is_refused_without_it(case: str, message: str) -> None:
    """FR-13, FR-15."""
    with pytest.raises(DataError, match=message):
        convert(CASES[case][0])


def test_bodies_that_are_computed_anew_are_told() -> None:
    found = convert(mixed())

    assert any("all bodies are computed anew" in note for note in found.notes)


@pytest.mark.parametrize("fps", [25.0, 30.0, 60.0])
@pytest.mark.parametrize("name", ["step", "wave"])
def test_other_rates_follow_the_same_motion_at_50_frames_a_second(name: str, fps: float) -> None:
    found = convert(unnamed(builtin(name, fps))).clip

    # A chord's distance from its curve: h^2 / 8 of the greatest joint acceleration, 25 rad/s^2.
    assert_same(found, builtin(name), atol=25.0 / (8.0 * fps**2) + 1e-4)
    torch.testing.assert_close(found.joint_vel, builtin(name).joint_vel, atol=25.0 / fps, rtol=0)


def test_a_turn_through_180_degrees_is_converted_without_a_jump() -> None:
    path = trajectory_of(builtin("sway"), g1_robot())
    yaw = torch.linspace(0.0, 3.0 * math.pi, len(path.root_pos), dtype=torch.float64)
    quat = torch.stack((torch.cos(yaw / 2), 0.0 * yaw, 0.0 * yaw, torch.sin(yaw / 2)), dim=1)
    # As many tools write it: w never negative, so the sign jumps.
    quat = torch.where(quat[:, :1] < 0.0, -quat, quat)
    rows = torch.cat((path.root_pos, quat, path.joint_pos), dim=1)
    table = MotionTable(source="turn.csv", header=None, rows=rows)

    options = ConvertOptions(fps_in=50.0, fps=60.0, quat_order="wxyz")
    found = convert_table(table, INDEX, g1_kinematics(), options).clip

    pelvis = found.body_quat[:, 0]
    assert bool(((pelvis[1:] * pelvis[:-1]).sum(dim=1) > 0.99).all())
    spin = 3.0 * math.pi / 6.8
    torch.testing.assert_close(found.body_ang_vel[:, 0, 2], torch.full((found.frames,), spin), atol=1e-3, rtol=0)


@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_a_table_is_converted(order: str) -> None:
    places = [0, 1, 2, 3] if order == "wxyz" else [1, 2, 3, 0]
    rows = torch.cat((SQUAT.body_pos[:, 0], SQUAT.body_quat[:, 0, places], SQUAT.joint_pos), dim=1).double()
    table = MotionTable(source="squat.csv", header=None, rows=rows)

    found = convert_table(table, INDEX, g1_kinematics(), ConvertOptions(fps_in=50.0, quat_order=order))

    assert_same(found.clip, SQUAT)


def test_a_table_needs_a_rate_and_no_options_of_motion_files() -> None:
    table = MotionTable(source="squat.csv", header=None, rows=torch.zeros(2, 36).double())

    with pytest.raises(DataError, match="give --fps-in N"):
        convert_table(table, INDEX, g1_kinematics(), ConvertOptions())
    with pytest.raises(ConfigurationError, match="--drop-free-joint is for motion files"):
        convert_table(table, INDEX, g1_kinematics(), ConvertOptions(drop_free_joint=True))


def test_columns_that_are_no_quaternion_are_refused() -> None:
    rows = torch.ones(2, 36).double()

    table = MotionTable(source="squat.csv", header=None, rows=rows)
    with pytest.raises(DataError, match=r"quaternion has norm 2\.000 at frame 0"):
        convert_table(table, INDEX, g1_kinematics(), ConvertOptions(fps_in=30.0, quat_order="wxyz"))


def test_an_order_that_forward_kinematics_contradicts_is_refused() -> None:
    with pytest.raises(DataError, match="leave --quat-order out"):
        convert(unnamed(SQUAT), quat_order="xyzw")


def test_values_that_are_not_finite_are_named_where_they_matter() -> None:
    bad, harmless = unnamed(SQUAT), unnamed(SQUAT)
    bad["joint_pos"][7, 3] = np.nan
    harmless["joint_vel"][7, 3] = np.nan

    with pytest.raises(DataError, match="joint_pos is not finite at frame 7"):
        convert(bad)
    assert_same(convert(harmless).clip, SQUAT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0.0}, "--fps is 0"),
        ({"fps_in": -1.0}, "--fps-in is -1"),
        ({"scale": math.nan}, "--scale is nan"),
        ({"quat_order": "zyxw"}, "--quat-order is 'zyxw'"),
        ({"root_height_offset": math.inf}, "--root-height-offset is inf"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        dataclasses.replace(ConvertOptions(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("quat_order", np.array(["zyx"]), "quat_order is 'zyx': expected wxyz or xyzw"),
        ("quat_order", np.array([], dtype=np.str_), "quat_order is '': expected wxyz or xyzw"),
        ("quat_order", np.array([1]), "quat_order holds numbers, expected text"),
        ("joint_names", np.array(["a"] * 29), "joint_names has 'a' more than once"),
        ("joint_names", np.array([f"j{i}" for i in range(29)]), "joint_names lacks 'left_hip_pitch_joint' and 28 more"),
        ("joint_names", np.zeros(29), "joint_names holds numbers, expected text"),
        ("body_names", np.array(["world", "pelvis"]), "body_names has 2 names for 31 bodies: give --root-body INDEX"),
        ("joint_pos", unnamed(SQUAT)["joint_pos"].astype(np.str_), "joint_pos holds text, expected numbers"),
        ("fps", np.array(["50"]), "fps holds text, expected one number"),
    ],
)
def test_what_is_there_and_cannot_be_read_is_not_guessed(key: str, value: npt.NDArray[Any], message: str) -> None:
    """FR-13, FR-15."""
    with pytest.raises(DataError, match=message):
        convert({**unnamed(SQUAT), key: value})


@pytest.mark.parametrize("options", [{"fps_in": 1e-300}, {"fps_in": 0.001}, {"fps": 1e9}])
def test_a_rate_out_of_all_measure_is_refused_and_not_tried(options: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"frames, more than 1000000: check both rates"):
        convert(unnamed(SQUAT), **options)


@pytest.mark.parametrize("place", [-1, 31])
def test_a_root_beyond_the_body_axis_is_refused(place: int) -> None:
    with pytest.raises(DataError, match=f"--root-body is {place}, and there are 31 bodies"):
        convert(unnamed(SQUAT), root_body=place)


def table_of(quat: torch.Tensor, joints: torch.Tensor = SQUAT.joint_pos) -> MotionTable:
    rows = torch.cat((SQUAT.body_pos[:, 0], quat, joints), dim=1).double()
    return MotionTable(source="squat.csv", header=None, rows=rows)


def notes_of(table: MotionTable, **options: object) -> tuple[str, ...]:
    given = dataclasses.replace(ConvertOptions(fps_in=50.0, quat_order="wxyz"), **options)  # type: ignore[arg-type]
    return convert_table(table, INDEX, g1_kinematics(), given).notes[1:]


def test_an_order_that_lays_the_robot_down_is_told() -> None:
    turned = torch.tensor([0.8, 0.0, 0.0, 0.6]).repeat(SQUAT.frames, 1)

    assert notes_of(table_of(turned)) == ()
    (note,) = notes_of(table_of(turned), quat_order="xyzw")
    assert note.startswith("with --quat-order xyzw the root is tilted by ")
    assert note.endswith("and with wxyz by 0: check the order")


def test_a_file_that_was_made_with_the_wrong_order_is_mended_by_the_other() -> None:
    """What the finding on it says to do."""
    yaw = math.radians(170.0)
    quat = torch.tensor([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
    wrong = convert_table(
        table_of(quat[[1, 2, 3, 0]].repeat(SQUAT.frames, 1)),
        INDEX,
        g1_kinematics(),
        ConvertOptions(fps_in=50.0, quat_order="wxyz"),
    ).clip

    found = convert(unnamed(wrong), quat_order="xyzw").clip

    torch.testing.assert_close(found.body_quat[:, 0], quat.expand(SQUAT.frames, 4), atol=1e-5, rtol=0)


def test_joints_of_a_table_in_degrees_are_refused_and_radians_taken_for_degrees_told() -> None:
    level = SQUAT.body_quat[:, 0]

    with pytest.raises(DataError, match=r"^squat\.csv: joint_pos looks like degrees.*: give --degrees$"):
        notes_of(table_of(level, torch.rad2deg(SQUAT.joint_pos)))
    assert notes_of(table_of(level, torch.rad2deg(SQUAT.joint_pos)), degrees=True) == ()
    (note,) = notes_of(table_of(level), degrees=True)
    assert note.startswith("with --degrees no joint is further than 0.0")


def test_a_rate_that_replaces_another_one_is_told() -> None:
    arrays = {**unnamed(SQUAT), "fps": np.array([100])}

    assert "--fps-in 50 replaces the rate that the file states, 100 fps" in convert(arrays, fps_in=50.0).notes
    assert not any("replaces" in note for note in convert(unnamed(SQUAT), fps_in=50.0).notes)


def test_velocities_that_contradict_positions_and_rate_are_told() -> None:
    doubled = convert({**unnamed(SQUAT), "fps": np.array([100])}).notes
    other = convert({**unnamed(SQUAT), "body_lin_vel_w": np.zeros((341, 31, 3))}).notes
    short = convert({**unnamed(SQUAT), "joint_vel": unnamed(SQUAT)["joint_vel"][:300]}).notes

    assert any("fps says 100" in note and "(--fps-in 50 would follow them); velocities are" in note for note in doubled)
    assert any(note.startswith("body_lin_vel_w is not the velocity of body_pos_w") for note in other)
    assert any("have not the same frames (joint_pos 341, joint_vel 300, " in note for note in short)


@pytest.mark.parametrize("case", ["good", "centimetres", "w last", "degrees", "doubled rate"])
def test_what_an_option_mends_is_no_contradiction(case: str) -> None:
    arrays, options = CASES[case]

    assert not any("velocit" in note for note in convert(arrays, **options).notes)
