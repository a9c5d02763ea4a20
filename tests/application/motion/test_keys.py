"""What a file lacks: a command where one makes it, and what it needs where none does."""

import pytest

from application.motion.convert import ConvertOptions, convert_arrays
from application.motion.keys import missing_key
from domain.errors import DataError
from tests.support.motion_files import Arrays, builtin, g1_kinematics, g1_scene, opened, unnamed, with_free_joint

SQUAT = unnamed(builtin("squat"))


def without(*keys: str) -> Arrays:
    return {key: value for key, value in SQUAT.items() if key not in keys}


def root_alone() -> Arrays:
    pelvis = {"root_pos": SQUAT["body_pos_w"][:, 1], "root_rot": SQUAT["body_quat_w"][:, 1]}
    return {"joint_pos": SQUAT["joint_pos"], **pelvis}


@pytest.mark.parametrize(
    ("arrays", "key", "text"),
    [
        (without("joint_pos"), "joint_pos", "a motion needs its joints, joint_pos (frames, joints)"),
        (without("body_pos_w"), "body_pos_w", "a motion needs its root, body_pos_w and body_quat_w, or root_pos and"),
        (without("joint_vel"), "joint_vel", "'unilab motion convert FILE' makes a whole"),
        (without("joint_vel", "fps"), "joint_vel", "'unilab motion convert FILE --fps-in N' makes"),
        (root_alone(), "joint_vel", "convert FILE --quat-order ORDER --fps-in N' (ORDER: wxyz or xyzw) makes"),
        (
            {"joint_pos": with_free_joint(builtin("squat"))["joint_pos"]},
            "joint_vel",
            "'unilab motion convert FILE --drop-free-joint --fps-in N' makes",
        ),
    ],
)
def test_the_message_says_what_will_work(arrays: Arrays, key: str, text: str) -> None:
    message = missing_key(opened(arrays), key, 29)

    assert message.startswith(f"clip.npz: {key} is missing (it holds ")
    assert text in message
    if "motion convert" not in message:
        # No conversion does it either.
        with pytest.raises(DataError):
            convert_arrays(opened(arrays), g1_scene().index, g1_kinematics(), ConvertOptions(fps_in=50.0))
    else:
        known = ConvertOptions(
            fps_in=50.0 if "--fps-in" in message else None,
            quat_order="wxyz" if "--quat-order" in message else None,
            drop_free_joint="--drop-free-joint" in message,
        )
        assert convert_arrays(opened(arrays), g1_scene().index, g1_kinematics(), known).clip.frames == 341
