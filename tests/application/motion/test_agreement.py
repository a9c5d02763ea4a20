"""Bodies against forward kinematics: what is off is found, and why."""

import dataclasses
import math

import pytest
import torch

from application.motion.agreement import Diagnosis, compare, diagnose, identity_only, undecidable_order
from application.motion.findings import REORDER
from application.motion.trajectory import Trajectory, clip_of
from domain.motion.clip import MotionClip
from domain.rotations import quat_from_euler_xyz, quat_mul
from tests.support.motion_files import builtin, g1_kinematics, g1_robot

ROBOT = g1_robot()


def turning() -> MotionClip:
    """A robot that stands and turns, so that no rotation is near the identity for long."""
    at = torch.arange(101, dtype=torch.float64) / 50.0
    still = torch.tensor(ROBOT.default_joint_pos, dtype=torch.float64).repeat(101, 1)
    root = torch.tensor([0.5, 0.2, 0.7567], dtype=torch.float64).repeat(101, 1)
    zero = torch.zeros_like(at)
    path = Trajectory(fps=50.0, root_pos=root, root_quat=quat_from_euler_xyz(zero, zero, 1.0 + at), joint_pos=still)
    return clip_of(path, ROBOT, g1_kinematics(), "turn.npz")


def diagnosis(clip: MotionClip) -> Diagnosis | None:
    return diagnose(compare(clip, ROBOT, g1_kinematics()), clip, ROBOT, g1_kinematics())


@pytest.mark.parametrize("clip", [builtin("step"), turning()])
def test_a_good_clip_fits_and_needs_nothing(clip: MotionClip) -> None:
    found = compare(clip, ROBOT, g1_kinematics())

    assert found.fits
    assert float(found.distance.max()) < 1e-5
    assert diagnosis(clip) is None
    assert undecidable_order(clip, ROBOT, g1_kinematics(), 100) is None


def test_two_bodies_in_each_others_place_are_named() -> None:
    """FR-01."""
    clip = builtin("step")
    left, right = (clip.bodies.index(f"{side}_ankle_roll_link") for side in ("left", "right"))
    order = list(range(len(clip.bodies)))
    order[left], order[right] = right, left
    mixed = dataclasses.replace(clip, body_pos=clip.body_pos[:, order], body_quat=clip.body_quat[:, order])

    found = diagnosis(mixed)

    assert found is not None
    assert (found.decided, found.options, found.mend) == (False, None, REORDER)
    # The feet stand 2 * (0.064452 + 0.052 + 0.0021489 - 0.000094445) m apart.
    assert found.what.startswith("body 'left_ankle_roll_link' is 0.237 m from where")
    assert "at frame 0, and just where 'right_ankle_roll_link' belongs" in found.what


def test_a_body_that_is_off_by_more_than_5_mm_is_named_with_its_frame_and_by_less_is_not() -> None:
    """FR-01."""
    clip = builtin("sway")
    wrist = clip.bodies.index("left_wrist_yaw_link")
    moved = clip.body_pos.clone()
    moved[123:, wrist, 1] += 0.006

    found = diagnosis(dataclasses.replace(clip, body_pos=moved))

    assert found is not None
    assert found.what.startswith("body 'left_wrist_yaw_link' is 0.006 m from where")
    assert found.what.endswith("at frame 123")
    moved[123:, wrist, 1] -= 0.002
    assert diagnosis(dataclasses.replace(clip, body_pos=moved)) is None


def test_a_body_that_is_turned_is_named() -> None:
    clip = builtin("sway")
    torso = clip.bodies.index("torso_link")
    quats = clip.body_quat.clone()
    turn = torch.tensor([math.cos(0.1), math.sin(0.1), 0.0, 0.0])
    quats[50, torso] = quat_mul(turn, quats[50, torso])

    found = diagnosis(dataclasses.replace(clip, body_quat=quats))

    assert found is not None
    assert found.what == (
        "body 'torso_link' is turned by 0.20 rad against where forward kinematics of joint_pos puts it at frame 50"
    )


@pytest.mark.parametrize("clip", [builtin("squat"), turning()])
def test_rotations_with_w_last_are_told(clip: MotionClip) -> None:
    """FR-15."""
    found = diagnosis(dataclasses.replace(clip, body_quat=clip.body_quat[..., [1, 2, 3, 0]]))

    assert found is not None
    assert (found.decided, found.options) == (True, "--quat-order xyzw")


@pytest.mark.parametrize(
    ("factor", "unit", "option"),
    [(100.0, "centimetres", "--scale 0.01"), (1000.0, "millimetres", "--scale 0.001")],
)
def test_another_unit_is_told(factor: float, unit: str, option: str) -> None:
    clip = builtin("squat")

    found = diagnosis(dataclasses.replace(clip, body_pos=clip.body_pos * factor))

    assert found is not None
    assert found.options == option
    assert unit in found.what


def test_degrees_are_told() -> None:
    clip = builtin("wave")

    found = diagnosis(dataclasses.replace(clip, joint_pos=torch.rad2deg(clip.joint_pos)))

    assert found is not None
    assert (found.decided, found.options) == (True, "--degrees")


def only_root(quat: tuple[float, float, float, float]) -> MotionClip:
    clip = builtin("sway")
    root = {name: getattr(clip, name)[:, :1] for name in ("body_pos", "body_lin_vel", "body_ang_vel")}
    return dataclasses.replace(
        clip, bodies=clip.bodies[:1], body_quat=torch.tensor(quat).expand(clip.frames, 1, 4).clone(), **root
    )


def test_the_order_cannot_be_told_from_a_root_alone_and_is_not_guessed() -> None:
    """FR-15."""
    lean = (math.cos(0.2), math.sin(0.2), 0.0, 0.0)

    doubt = undecidable_order(only_root(lean), ROBOT, g1_kinematics(), 100)

    assert doubt is not None
    assert "undecidable" in doubt


@pytest.mark.parametrize("quat", [(1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (-1.0, 0.0, 0.0, 0.0)])
def test_the_order_cannot_be_told_from_identities_and_is_not_guessed(quat: tuple[float, float, float, float]) -> None:
    """FR-15."""
    clip = only_root(quat)

    assert identity_only(clip)
    doubt = undecidable_order(clip, ROBOT, g1_kinematics(), 100)
    assert doubt is not None
    assert "undecidable: every body_quat_w is the identity" in doubt


def test_identities_that_are_no_rotations_of_the_bodies_are_refused_and_called_undecidable() -> None:
    """FR-15."""
    clip = builtin("sway")
    flat = dataclasses.replace(clip, body_quat=torch.tensor([1.0, 0.0, 0.0, 0.0]).expand_as(clip.body_quat).clone())

    found = diagnosis(flat)

    assert found is not None
    assert not found.decided
    assert "'left_hip_pitch_link' is turned by 0.31 rad" in found.what
    assert found.what.endswith("so the quaternion order is undecidable")


def test_few_frames_are_spread_from_the_first_to_the_last() -> None:
    found = compare(builtin("sway"), ROBOT, g1_kinematics(), 5)

    assert found.frames.tolist() == [0, 85, 170, 255, 340]
    assert found.poses.clearance.shape == (5,)
