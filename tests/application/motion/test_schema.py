"""Motion files as users have them: both forms are read, and what differs is named with what mends it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from application.motion.ports import MotionArrays
from application.motion.schema import arrays_of, fps_of, read_motion
from domain.errors import DataError
from domain.motion.clip import WIDTHS, MotionClip
from tests.support.motion_files import Arrays, builtin, g1_robot, opened, unnamed, with_free_joint

ROBOT = g1_robot()


def clip() -> MotionClip:
    return builtin("step")


def assert_same(found: MotionClip, wanted: MotionClip) -> None:
    assert (found.fps, found.joints, found.bodies) == (wanted.fps, wanted.joints, wanted.bodies)
    for name in WIDTHS:
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), msg=name)


def test_a_file_without_names_is_read_by_position_and_says_so() -> None:
    found = read_motion(opened(unnamed(clip())), ROBOT)

    assert_same(found.clip, clip())
    assert [note.split(":")[0] for note in found.notes] == ["no joint_names", "no body_names"]


def test_a_file_without_the_world_is_read_too() -> None:
    arrays = {key: value[:, 1:] if key.startswith("body_") else value for key, value in unnamed(clip()).items()}

    assert_same(read_motion(opened(arrays), ROBOT).clip, clip())


def test_a_file_with_names_may_have_any_order() -> None:
    arrays = unnamed(clip())
    joints, bodies = np.random.default_rng(1).permutation(29), np.random.default_rng(2).permutation(31)
    names = np.array(("world", *clip().bodies))
    arrays = {
        **{key: value[:, bodies] for key, value in arrays.items() if key.startswith("body_")},
        **{key: arrays[key][:, joints] for key in ("joint_pos", "joint_vel")},
        "fps": arrays["fps"],
        "joint_names": np.array(clip().joints)[joints],
        "body_names": names[bodies],
    }

    found = read_motion(opened(arrays), ROBOT)

    assert found.notes == ()
    assert_same(found.clip, clip())


@pytest.mark.parametrize("named_root", [False, True])
def test_a_free_joint_before_the_joints_is_taken_off(named_root: bool) -> None:
    """FR-13: where the file's names say that it is one."""
    arrays = with_free_joint(clip())
    if named_root:
        arrays["joint_names"] = np.array(("floating_base_joint", *clip().joints))

    assert_same(read_motion(opened(arrays), ROBOT).clip, clip())


def test_joints_and_bodies_that_the_robot_has_not_are_left_out_and_noted() -> None:
    arrays = with_free_joint(clip())
    extra = np.zeros((clip().frames, 1))
    arrays["joint_pos"] = np.concatenate([arrays["joint_pos"], extra], axis=1)
    arrays["joint_vel"] = np.concatenate([arrays["joint_vel"], extra], axis=1)
    arrays["joint_names"] = np.array((*clip().joints, "left_thumb_joint"))
    for key in [key for key in arrays if key.startswith("body_") and key != "body_names"]:
        arrays[key] = np.concatenate([arrays[key], arrays[key][:, :1]], axis=1)
    arrays["body_names"] = np.array((*clip().bodies, "box"))

    found = read_motion(opened(arrays), ROBOT)

    assert_same(found.clip, clip())
    assert ["'left_thumb_joint'" in found.notes[0], "'box'" in found.notes[1]] == [True, True]


def test_some_of_the_bodies_are_enough_where_the_root_is_there() -> None:
    arrays = with_free_joint(clip())
    keep = [0, 3, 15]
    for key in [key for key in arrays if key.startswith("body_") and key != "body_names"]:
        arrays[key] = arrays[key][:, keep]
    arrays["body_names"] = np.array([clip().bodies[place] for place in keep])

    assert read_motion(opened(arrays), ROBOT).clip.bodies == tuple(clip().bodies[place] for place in keep)
    arrays["body_names"] = np.array(["torso_link", *clip().bodies[3:5]])
    with pytest.raises(DataError, match=r"body_names lacks 'pelvis'"):
        read_motion(opened(arrays), ROBOT)


def test_a_file_may_say_that_its_rotations_are_w_last() -> None:
    """FR-15."""
    arrays = unnamed(clip())
    arrays["body_quat_w"] = arrays["body_quat_w"][..., [1, 2, 3, 0]]
    arrays["quat_order"] = np.array(["xyzw"])

    assert_same(read_motion(opened(arrays), ROBOT).clip, clip())
    arrays["quat_order"] = np.array(["zyx"])
    with pytest.raises(DataError, match="quat_order is 'zyx': expected wxyz or xyzw"):
        read_motion(opened(arrays), ROBOT)


@pytest.mark.parametrize("value", [np.array(50), np.array([50]), np.array(50.0), np.array([[50.0]], dtype=np.float32)])
def test_a_rate_may_be_written_in_several_ways(value: npt.NDArray[Any]) -> None:
    assert fps_of(opened({"fps": value})) == 50.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([0]), r"fps is 0: .*--fps-in N"),
        (np.array([np.nan]), r"fps is nan"),
        (np.array([-50.0]), r"fps is -50"),
        (np.array([np.inf]), r"fps is inf"),
        (np.array([]), r"fps has shape \(0,\), expected one number"),
        (np.array(["50"]), r"fps holds text, expected one number"),
        (np.array([50, 50]), r"fps has shape \(2,\), expected one number"),
    ],
)
def test_a_rate_that_is_none_is_refused(value: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fps_of(opened({"fps": value}))


def bodies_52() -> Arrays:
    arrays = unnamed(clip())
    return {k: np.concatenate([v, v[:, :21]], axis=1) if k.startswith("body_") else v for k, v in arrays.items()}


def free_joint_36() -> Arrays:
    arrays = unnamed(clip())
    return {**arrays, "joint_pos": with_free_joint(clip())["joint_pos"]}


def without(key: str) -> Arrays:
    return {name: value for name, value in unnamed(clip()).items() if name != key}


def changed(key: str, value: npt.NDArray[Any]) -> Arrays:
    return {**unnamed(clip()), key: value}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (free_joint_36(), r"joint_pos has shape \(401, 36\), expected \(frames, 29\).*--drop-free-joint"),
        (bodies_52(), r"body_pos_w has shape \(401, 52, 3\), expected \(frames, 31, 3\).*--root-body INDEX"),
        (changed("joint_pos", np.zeros((401, 23))), r"\(401, 23\), expected \(frames, 29\).*add joint_names"),
        (changed("joint_vel", np.zeros((400, 29))), r"joint_vel has shape \(400, 29\), expected \(401, 29\)"),
        (changed("body_quat_w", np.zeros((401, 31, 3))), r"body_quat_w has shape \(401, 31, 3\), .* \(401, 31, 4\)"),
        (changed("joint_pos", np.zeros(29)), r"joint_pos has shape \(29,\)"),
        (without("fps"), r"fps is missing: 'unilab motion convert FILE --fps-in N'"),
        (without("body_ang_vel_w"), r"body_ang_vel_w is missing \(it holds .*\): 'unilab motion convert FILE'"),
        ({**with_free_joint(clip()), "joint_names": np.array(["a"] * 29)}, r"joint_names has 'a' more than once"),
        (
            {**with_free_joint(clip()), "joint_names": np.array([f"j{i}" for i in range(29)])},
            r"joint_names lacks left_hip_pitch_joint, .* and more, expected all 29",
        ),
    ],
)
def test_another_shape_or_key_is_named_with_what_mends_it(arrays: Arrays, message: str) -> None:
    """FR-13."""
    with pytest.raises(DataError, match=r"^dance\.npz: .*" + message):
        read_motion(opened(arrays, "dance.npz"), ROBOT)


@pytest.mark.parametrize(
    ("key", "place", "value", "message"),
    [
        ("joint_vel", (7, 3), np.nan, "joint_vel has a NaN at frame 7"),
        ("body_pos_w", (9, 4, 1), np.inf, "body_pos_w has an inf at frame 9"),
        ("joint_pos", (0, 0), -np.inf, "joint_pos has an inf at frame 0"),
        ("body_quat_w", (400, 30, 0), np.nan, "body_quat_w has a NaN at frame 400"),
    ],
)
def test_a_value_that_is_not_finite_is_named_by_key_and_frame(
    key: str, place: tuple[int, ...], value: float, message: str
) -> None:
    """FR-17."""
    arrays = unnamed(clip())
    arrays[key] = arrays[key].copy()
    arrays[key][place] = value

    with pytest.raises(DataError, match=message):
        read_motion(opened(arrays), ROBOT)


def test_objects_text_and_names_that_are_none_are_refused() -> None:
    """FR-17."""
    whole = opened(unnamed(clip()))
    rest = {key: value for key, value in whole.arrays.items() if key != "joint_pos"}
    objects = MotionArrays(source="x.npz", arrays=rest, texts={}, others={"joint_pos": "Python objects"})
    words = MotionArrays(source="x.npz", arrays=rest, texts={"joint_pos": ("a",)}, others={})
    numbered = MotionArrays(
        source="x.npz", arrays={**whole.arrays, "joint_names": torch.zeros(29)}, texts={}, others={}
    )
    unread = MotionArrays(source="x.npz", arrays=whole.arrays, texts={}, others={"quat_order": "Python objects"})

    for file, message in (
        (objects, "joint_pos holds Python objects, expected numbers"),
        (words, "joint_pos holds text, expected numbers"),
        (numbered, "joint_names holds numbers, expected text"),
        (unread, "quat_order holds Python objects, expected text"),
    ):
        with pytest.raises(DataError, match=message):
            read_motion(file, ROBOT)


@pytest.mark.parametrize(
    ("place", "factor", "message"),
    [
        ((5, 3), 0.0, r"body_quat_w has norm 0\.000 at frame 5 \('left_hip_roll_link'\), expected 1: .*convert FILE'"),
        ((slice(None), slice(None)), 0.0, r"body_quat_w has norm 0\.000 at frame 0 \('pelvis'\)"),
        ((340, 1), 1.02, r"body_quat_w has norm 1\.020 at frame 340 \('pelvis'\)"),
    ],
)
def test_a_quaternion_that_is_no_rotation_is_named_by_key_frame_and_body(
    place: tuple[Any, ...], factor: float, message: str
) -> None:
    """FR-17."""
    arrays = unnamed(clip())
    arrays["body_quat_w"][place] *= factor

    with pytest.raises(DataError, match=r"^dance\.npz: " + message):
        read_motion(opened(arrays, "dance.npz"), ROBOT)


@pytest.mark.parametrize(
    ("key", "names", "message"),
    [
        (
            "joint_names",
            ["左膝", *builtin("step").joints[1:]],
            "joint_names lacks left_hip_pitch_joint, expected all 29",
        ),
        ("joint_names", [], "joint_names lacks left_hip_pitch_joint, .* and more"),
        ("body_names", ["world", "pelvis", *["left_knee_link"] * 29], "body_names has 'left_knee_link' more than once"),
        ("body_names", ["world", "pelvis"], r"body_pos_w has shape \(401, 31, 3\), expected \(401, 2, 3\)"),
        ("quat_order", [], "quat_order is '': expected wxyz or xyzw"),
        ("quat_order", ["wxyz", "xyzw"], "quat_order is 'wxyz, xyzw'"),
    ],
)
def test_names_that_do_not_fit_are_refused(key: str, names: list[str], message: str) -> None:
    """FR-13."""
    arrays = {**unnamed(clip()), key: np.array(names, dtype=np.str_)}

    with pytest.raises(DataError, match=message):
        read_motion(opened(arrays), ROBOT)


def test_a_body_with_a_name_of_another_script_is_one_that_the_robot_has_not() -> None:
    arrays = unnamed(clip())
    names = np.array(("world", *clip().bodies), dtype="U40")
    names[4] = "тело_💥"

    found = read_motion(opened({**arrays, "body_names": names}), ROBOT)

    assert found.notes[1] == "1 body that this robot has not is left out: 'тело_💥'"
    assert clip().bodies[3] not in found.clip.bodies


@pytest.mark.parametrize("frames", [0, 1])
def test_a_clip_of_no_or_one_frame_is_refused(frames: int) -> None:
    arrays = {key: value if key == "fps" else value[:frames] for key, value in unnamed(clip()).items()}

    with pytest.raises(DataError, match=rf"^clip\.npz: joint_pos has {frames} frames: a clip needs at least 2"):
        read_motion(opened(arrays), ROBOT)


def test_two_frames_are_a_clip() -> None:
    arrays = {key: value if key == "fps" else value[:2] for key, value in unnamed(clip()).items()}

    assert read_motion(opened(arrays), ROBOT).clip.frames == 2


def test_a_free_joint_that_is_somewhere_else_than_the_root_body_is_refused() -> None:
    arrays = with_free_joint(clip())
    arrays["joint_pos"] = arrays["joint_pos"].copy()
    arrays["joint_pos"][30:, 0] += 0.02

    with pytest.raises(DataError, match=r"0\.020 m apart at frame 30: .*--drop-free-joint"):
        read_motion(opened(arrays), ROBOT)


def test_the_arrays_of_a_clip_are_the_first_form_with_names() -> None:
    arrays, texts = arrays_of(clip())

    assert (tuple(arrays["fps"].shape), arrays["fps"].dtype, int(arrays["fps"])) == ((1,), torch.int64, 50)
    assert texts["body_names"][:2] == ("world", "pelvis")
    assert arrays["body_quat_w"][0, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert float(arrays["body_pos_w"][:, 0].abs().max()) == 0.0


def test_a_rate_that_is_not_whole_is_kept() -> None:
    arrays, _ = arrays_of(builtin("sway", 29.97))

    assert float(arrays["fps"]) == pytest.approx(29.97)


def test_arrays_of_unlike_length_get_no_command() -> None:
    arrays = unnamed(clip())

    with pytest.raises(
        DataError, match=r"joint_vel has shape \(300, 29\), .*: all arrays need the same frames, as"
    ) as caught:
        read_motion(opened({**arrays, "joint_vel": arrays["joint_vel"][:300]}), ROBOT)

    assert "motion convert" not in str(caught.value)


def test_a_joint_with_a_slip_in_its_name_is_asked_for() -> None:
    names = np.array([name.replace("left_knee", "left_kne") for name in clip().joints])

    with pytest.raises(DataError, match=r"did you mean 'left_knee_joint' by 'left_kne_joint'\?$"):
        read_motion(opened({**unnamed(clip()), "joint_names": names}), ROBOT)


def test_a_root_that_is_not_finite_cannot_be_computed_anew() -> None:
    arrays = unnamed(clip())
    arrays["body_pos_w"][9, 1, 2] = np.nan

    with pytest.raises(DataError, match=r"body_pos_w has a NaN at frame 9: cut such frames out$"):
        read_motion(opened(arrays), ROBOT)
