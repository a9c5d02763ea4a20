"""Trajectories: what follows from root and joints, and the same motion at another rate."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from application.motion.trajectory import Trajectory, clip_of, continuous, rates, resample, robot_of, trajectory_of
from application.robots import cartpole
from domain.errors import ConfigurationError, DataError
from domain.rotations import quat_angle, quat_from_euler_xyz
from tests.support.motion_files import builtin, g1_kinematics, g1_robot


def curve(fps: float, seconds: float = 4.0) -> Trajectory:
    """A root that circles and turns, and two joints that swing; all of it known at any time."""
    at = torch.arange(round(seconds * fps) + 1, dtype=torch.float64) / fps
    zero = torch.zeros_like(at)
    return Trajectory(
        fps=fps,
        root_pos=torch.stack((torch.cos(at), torch.sin(at), 0.8 + 0.1 * torch.sin(2.0 * at)), dim=1),
        root_quat=quat_from_euler_xyz(0.2 * torch.sin(at), zero, 1.5 * at),
        joint_pos=torch.stack((torch.sin(3.0 * at), 0.5 * torch.cos(at)), dim=1),
    )


@pytest.mark.parametrize("fps", [25.0, 30.0, 60.0, 120.0])
def test_resampling_to_50_frames_a_second_follows_the_curve(fps: float) -> None:
    wanted = curve(50.0)

    found = resample(curve(fps), 50.0)

    # A chord lies at most h^2 / 8 times the second derivative, 9 for sin 3t, from its curve.
    most = 9.0 / (8.0 * fps**2) + 1e-9
    assert len(found.joint_pos) == len(wanted.joint_pos) == 201
    assert float((found.joint_pos - wanted.joint_pos).abs().max()) < most
    assert float((found.root_pos - wanted.root_pos).abs().max()) < most
    assert float(quat_angle(found.root_quat, wanted.root_quat).max()) < most
    torch.testing.assert_close(found.root_quat.norm(dim=1), torch.ones(201, dtype=torch.float64))


def test_frames_that_fall_on_old_ones_are_theirs() -> None:
    found = resample(curve(25.0), 50.0)

    torch.testing.assert_close(found.joint_pos[::2], curve(25.0).joint_pos)
    assert resample(curve(50.0), 50.0).joint_pos.shape[0] == 201


def test_the_last_frame_is_the_last_that_lies_inside() -> None:
    # 11 frames at 30 fps are 1/3 s: 16 whole steps of 1/50 s.
    short = curve(30.0, seconds=1.0 / 3.0)

    assert len(resample(short, 50.0).joint_pos) == 17


def test_a_sign_between_two_frames_does_not_turn_the_root_the_long_way() -> None:
    path = curve(25.0)
    signs = torch.ones(len(path.root_quat), 1, dtype=torch.float64)
    signs[::3] = -1.0

    found = resample(dataclasses.replace(path, root_quat=path.root_quat * signs), 50.0)

    assert float(quat_angle(found.root_quat, curve(50.0).root_quat).max()) < 1e-2


def test_continuous_keeps_rotations_and_has_no_jump() -> None:
    quats = curve(25.0).root_quat.clone()
    quats[10:20] *= -1.0
    quats[40] *= -1.0

    found = continuous(quats)

    assert bool(((found[1:] * found[:-1]).sum(dim=1) > 0.0).all())
    torch.testing.assert_close(found[0], quats[0])
    assert float(quat_angle(found, quats).max()) < 1e-6


def test_velocities_are_central_differences() -> None:
    values = torch.tensor([[0.0], [1.0], [4.0], [9.0]])

    torch.testing.assert_close(rates(values, 10.0), torch.tensor([[10.0], [20.0], [40.0], [50.0]]))


def test_a_clip_of_a_trajectory_has_its_root_and_joints_and_moves_as_it_says() -> None:
    path = trajectory_of(builtin("step"), g1_robot())

    clip = clip_of(path, g1_robot(), g1_kinematics(), "again")

    assert clip.source == "again"
    torch.testing.assert_close(clip.joint_pos, builtin("step").joint_pos)
    torch.testing.assert_close(clip.body_pos[:, 0].double(), path.root_pos, atol=1e-6, rtol=0)
    moved: Tensor = (clip.body_pos[2:] - clip.body_pos[:-2]) * 25.0
    torch.testing.assert_close(clip.body_lin_vel[1:-1], moved, atol=1e-4, rtol=0)


def test_a_turning_root_has_its_angular_velocity() -> None:
    frames = 51
    at = torch.arange(frames, dtype=torch.float64) / 50.0
    still = torch.tensor(g1_robot().default_joint_pos, dtype=torch.float64).repeat(frames, 1)
    zero = torch.zeros_like(at)
    root = torch.tensor([0.0, 0.0, 0.76], dtype=torch.float64).repeat(frames, 1)
    path = Trajectory(
        fps=50.0, root_pos=root, root_quat=quat_from_euler_xyz(zero, zero, 2.0 * math.pi * at), joint_pos=still
    )

    clip = clip_of(path, g1_robot(), g1_kinematics(), "turn")

    spin = torch.tensor([0.0, 0.0, 2.0 * math.pi]).expand_as(clip.body_ang_vel)
    torch.testing.assert_close(clip.body_ang_vel, spin, atol=1e-3, rtol=0)


def test_a_single_frame_is_no_clip() -> None:
    path = trajectory_of(builtin(), g1_robot())
    one = Trajectory(fps=50.0, root_pos=path.root_pos[:1], root_quat=path.root_quat[:1], joint_pos=path.joint_pos[:1])

    with pytest.raises(DataError, match="needs at least 2"):
        clip_of(one, g1_robot(), g1_kinematics(), "one.npz")


def test_a_robot_on_a_rail_has_no_motions() -> None:
    with pytest.raises(ConfigurationError, match="free root"):
        robot_of(cartpole.build().index)
