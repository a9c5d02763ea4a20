"""A clip whose rate and velocities disagree is found, and what its rate really is."""

import dataclasses

import pytest
import torch

from application.motion.findings import REORDER
from application.motion.rates import body_rate_problem, rate_problem
from domain.motion.clip import MotionClip
from domain.rotations import quat_from_euler_xyz, quat_mul, quat_rotate, quat_rotate_inverse
from tests.support.motion_files import builtin


@pytest.mark.parametrize("name", ["squat", "step", "wave"])
@pytest.mark.parametrize("fps", [25.0, 50.0])
def test_velocities_of_a_good_clip_agree(name: str, fps: float) -> None:
    assert rate_problem(builtin(name, fps)) is None
    assert body_rate_problem(builtin(name, fps)) is None


@pytest.mark.parametrize(("real", "said", "factor"), [(25.0, 50.0, "2 times"), (50.0, 30.0, "0.6 times")])
def test_a_rate_that_the_velocities_contradict_is_told_with_the_real_one(real: float, said: float, factor: str) -> None:
    found = rate_problem(dataclasses.replace(builtin("squat", real), fps=said))

    assert found is not None
    assert found.options == f"--fps-in {real:g}"
    assert f"fps says {said:g} and the velocities say {real:g}: joint_pos moves {factor} as fast" in found.what


def test_a_doubled_rate_says_when_the_clip_is_over() -> None:
    """FR-11."""
    found = rate_problem(dataclasses.replace(builtin("squat"), fps=100.0))

    assert found is not None
    assert "the clip is over (motion_clip_end) at frame 340 after 3.40 s instead of 6.80 s" in found.what


def exchanged(clip: MotionClip, array: str, one: str, other: str) -> MotionClip:
    """Return the clip with two columns of an array in each other's place."""
    names = clip.joints if array == "joint_vel" else clip.bodies
    order = list(range(len(names)))
    a, b = names.index(one), names.index(other)
    order[a], order[b] = b, a
    return dataclasses.replace(clip, **{array: getattr(clip, array)[:, order]})


def test_velocities_in_another_order_are_told() -> None:
    """FR-01: joint_vel from the last column to the first; of 29 the ones that stand at 13 and 15 change places."""
    clip = builtin("step")

    found = rate_problem(dataclasses.replace(clip, joint_vel=clip.joint_vel.flip(1)))

    assert found is not None
    assert found.what == (
        "joint_vel of 'waist_roll_joint' is the velocity of 'left_shoulder_pitch_joint': its columns are in another "
        "order"
    )


def test_two_joints_whose_velocities_change_places_are_named_though_all_others_fit() -> None:
    """FR-01: small joints, so that all columns together still look right."""
    clip = exchanged(builtin("step"), "joint_vel", "left_ankle_pitch_joint", "waist_roll_joint")

    found = rate_problem(clip)

    assert found is not None
    assert found.what.startswith("joint_vel of 'left_ankle_pitch_joint' is the velocity of 'waist_roll_joint'")
    assert (found.options, found.mend) == (None, REORDER)


@pytest.mark.parametrize(
    ("motion", "array", "one", "other", "key"),
    [
        ("step", "body_lin_vel", "left_ankle_roll_link", "right_ankle_roll_link", "body_lin_vel_w"),
        ("squat", "body_ang_vel", "pelvis", "left_elbow_link", "body_ang_vel_w"),
        ("squat", "body_ang_vel", "pelvis", "left_wrist_yaw_link", "body_ang_vel_w"),
    ],
)
def test_two_bodies_whose_velocities_change_places_are_named(
    motion: str, array: str, one: str, other: str, key: str
) -> None:
    """FR-01: poses fit, and only the velocities are on the wrong bodies."""
    found = body_rate_problem(exchanged(builtin(motion), array, one, other))

    assert found is not None
    assert found.what == f"{key} of '{one}' is the velocity of '{other}': its bodies are in another order"


def test_a_joint_at_rest_and_one_that_moves_are_told() -> None:
    """FR-01."""
    found = rate_problem(exchanged(builtin("wave"), "joint_vel", "waist_yaw_joint", "right_elbow_joint"))

    assert found is not None
    assert found.what.startswith("joint_vel of 'waist_yaw_joint' is the velocity of 'right_elbow_joint'")


def test_two_that_move_alike_may_change_places() -> None:
    clip = exchanged(builtin("squat"), "joint_vel", "left_knee_joint", "right_knee_joint")

    assert rate_problem(clip) is None


def test_bodies_that_move_as_the_next_one_does_have_not_changed_places() -> None:
    """As where a file has velocities of centres of mass."""
    clip = builtin("step")
    hip, thigh, knee = (clip.bodies.index(f"left_{name}_link") for name in ("hip_pitch", "hip_yaw", "knee"))
    speed = clip.body_lin_vel.clone()
    speed[:, [hip, thigh]] = speed[:, [thigh, knee]]

    assert body_rate_problem(dataclasses.replace(clip, body_lin_vel=speed)) is None


def test_velocities_that_are_nobodys_are_told() -> None:
    clip = builtin("step")
    noise = torch.randn(clip.joint_vel.shape, generator=torch.Generator().manual_seed(1))

    found = rate_problem(dataclasses.replace(clip, joint_vel=noise))

    assert found is not None
    assert found.what.startswith("joint_vel is not the velocity of joint_pos")


def test_a_turn_in_the_bodies_own_frames_is_told() -> None:
    """FR-15: as velocities come out of a simulator that has them in the body's frame."""
    clip = builtin("squat")
    own = quat_rotate_inverse(clip.body_quat, clip.body_ang_vel)
    rolled = quat_from_euler_xyz(torch.tensor(0.0), torch.tensor(0.0), torch.tensor(1.5)).expand_as(clip.body_quat)
    turned = dataclasses.replace(
        clip, body_quat=quat_mul(rolled, clip.body_quat), body_ang_vel=quat_rotate(rolled, clip.body_ang_vel)
    )

    assert body_rate_problem(turned) is None
    found = body_rate_problem(dataclasses.replace(turned, body_ang_vel=own))

    assert found is not None
    assert found.what.startswith("body_ang_vel_w is not the velocity of body_quat_w")


def test_a_body_that_never_turns_has_no_turning_speed() -> None:
    clip = builtin("squat")
    flat = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand_as(clip.body_quat).clone()

    found = body_rate_problem(dataclasses.replace(clip, body_quat=flat))

    assert found is not None
    assert found.what == "body_ang_vel_w is not the velocity of body_quat_w: 0.00 times it (correlation 0.00)"


def test_a_clip_at_rest_says_nothing_about_its_rate() -> None:
    clip = builtin("squat")

    still = dataclasses.replace(
        clip,
        joint_pos=clip.joint_pos[:1].expand_as(clip.joint_pos),
        joint_vel=torch.zeros_like(clip.joint_vel),
        body_pos=clip.body_pos[:1].expand_as(clip.body_pos),
        body_lin_vel=torch.zeros_like(clip.body_lin_vel),
        body_quat=clip.body_quat[:1].expand_as(clip.body_quat),
        body_ang_vel=torch.zeros_like(clip.body_ang_vel),
    )

    assert rate_problem(still) is None
    assert body_rate_problem(still) is None


def test_body_velocities_of_another_unit_are_told() -> None:
    clip = builtin("squat")

    found = body_rate_problem(dataclasses.replace(clip, body_lin_vel=clip.body_lin_vel * 100.0))

    assert found is not None
    assert "100.00 times" in found.what
