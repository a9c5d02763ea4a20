"""Ends that a reference brings about by itself are told by name and frame, and no others."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from application.motion.builtin import PLANS
from application.motion.ports import Poses
from application.motion.terminations import End, ends_of, height_problem
from application.motion.trajectory import Trajectory, clip_of, trajectory_of
from domain.motion.clip import MotionClip
from domain.rotations import quat_from_euler_xyz
from tests.support.motion_files import builtin, g1_kinematics, g1_robot

ROBOT = g1_robot()


def poses(clip: MotionClip) -> Poses:
    return g1_kinematics().poses(trajectory_of(clip, ROBOT).qpos)


def ends(clip: MotionClip) -> dict[str, End]:
    return {end.term: end for end in ends_of(clip, ROBOT, g1_kinematics(), poses(clip))}


def raised(clip: MotionClip, height: float) -> MotionClip:
    moved = clip.body_pos.clone()
    moved[..., 2] += height
    return dataclasses.replace(clip, body_pos=moved)


def with_height(height: Tensor, fps: float = 50.0) -> MotionClip:
    """A standing robot that is lifted by ``height`` (frames,), m."""
    path = trajectory_of(builtin("sway"), ROBOT)
    root = path.root_pos[:1].repeat(len(height), 1)
    root[:, 2] += height
    joints, quat = path.joint_pos[:1].repeat(len(height), 1), path.root_quat[:1].repeat(len(height), 1)
    moved = Trajectory(fps=fps, root_pos=root, root_quat=quat, joint_pos=joints)
    return clip_of(moved, ROBOT, g1_kinematics(), "lifted")


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_motion_that_can_be_followed_ends_nothing(name: str) -> None:
    assert ends(builtin(name)) == {}
    assert height_problem(builtin(name), poses(builtin(name)).clearance) is None


def test_a_root_half_a_metre_too_high_ends_by_the_height_of_the_anchor_when_the_robot_has_fallen() -> None:
    """FR-11."""
    clip = raised(builtin("squat"), 0.5)

    found = ends(clip)

    # A fall of 0.25 m takes sqrt(0.5 / 9.81) = 0.226 s: beyond 11 frames of 1/50 s, within 12.
    assert list(found) == ["anchor_pos"]
    assert found["anchor_pos"].frame == 12
    problem = height_problem(clip, poses(clip).clearance)
    assert problem is not None
    assert problem.options == "--root-height-offset -0.500"
    assert "'anchor_pos' (off by 0.25 m) ends every episode 12 frames after it starts" in problem.what


def test_a_robot_that_falls_less_than_the_limit_ends_nothing() -> None:
    clip = raised(builtin("squat"), 0.2)

    assert ends(clip) == {}
    assert height_problem(clip, poses(clip).clearance) is None


def test_a_robot_inside_the_floor_is_pushed_out_at_once() -> None:
    clip = raised(builtin("squat"), -0.3)

    assert ends(clip)["anchor_pos"].frame == 0
    problem = height_problem(clip, poses(clip).clearance)
    assert problem is not None
    assert problem.options == "--root-height-offset 0.300"


def test_centimetres_end_everything_at_the_first_frame() -> None:
    """FR-11."""
    clip = builtin("squat")

    found = ends(dataclasses.replace(clip, body_pos=clip.body_pos * 100.0))

    assert {term: end.frame for term, end in found.items()} == {"anchor_pos": 0, "ee_body_pos": 0}


def test_a_body_in_anothers_place_ends_where_their_heights_differ() -> None:
    clip = builtin("squat")
    foot, wrist = clip.bodies.index("left_ankle_roll_link"), clip.bodies.index("left_wrist_yaw_link")
    order = list(range(len(clip.bodies)))
    order[foot], order[wrist] = wrist, foot

    found = ends(dataclasses.replace(clip, body_pos=clip.body_pos[:, order]))

    assert (found["ee_body_pos"].frame, "'left_ankle_roll_link' is 0.7" in found["ee_body_pos"].why) == (0, True)


def test_joints_beyond_their_limits_end_where_a_foot_cannot_follow() -> None:
    path = trajectory_of(builtin("sway"), ROBOT)
    joints = path.joint_pos.clone()
    # The knee's range ends at -0.09 rad, where the shin, 0.3 m, points down; the reference has it point up.
    joints[60:, ROBOT.joints.index("left_knee_joint")] = -1.9
    clip = clip_of(dataclasses.replace(path, joint_pos=joints), ROBOT, g1_kinematics(), "bent")

    assert ends(clip)["ee_body_pos"].frame == 60


def test_a_lying_anchor_ends_by_its_tilt_where_joints_do_not_say_so() -> None:
    clip = builtin("sway")
    quats = clip.body_quat.clone()
    half = torch.tensor(math.pi / 2)
    quats[77:, clip.bodies.index("torso_link")] = quat_from_euler_xyz(torch.zeros(()), half, torch.zeros(()))

    found = ends(dataclasses.replace(clip, body_quat=quats))

    assert {term: end.frame for term, end in found.items()} == {"anchor_ori": 77}


def test_a_real_jump_can_be_followed_and_one_that_hangs_in_the_air_cannot() -> None:
    # 0.4 m up: 0.571 s in the air.
    at = torch.arange(80, dtype=torch.float64) / 50.0
    speed = math.sqrt(2.0 * 9.81 * 0.4)
    free = speed * (at - 0.4) - 0.5 * 9.81 * (at - 0.4) ** 2
    jump = torch.where((at > 0.4) & (free > 0.0), free, 0.0)
    hang = torch.where((at > 0.4) & (at < 1.2), 0.4, 0.0)

    assert ends(with_height(jump)) == {}
    assert "anchor_pos" in ends(with_height(hang))


def test_a_drop_faster_than_gravity_leaves_the_robot_behind() -> None:
    at = torch.arange(60, dtype=torch.float64) / 50.0
    # 0.6 m down in 0.1 s; a free fall takes 0.35 s.
    drop = 0.6 * (1.0 - ((at - 0.5) / 0.1).clamp(0.0, 1.0))

    found = ends(with_height(drop + 0.0))

    assert found["anchor_pos"].frame <= 31
