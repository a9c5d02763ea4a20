"""The tracking command: targets, start states, metrics and what it refuses."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from domain.rotations import quat_angle, quat_from_euler_xyz, quat_mul, rot6, yaw_of
from tests.support.fake_backend import JOINTS, FakeBackend
from tests.support.follower import BODIES, command_of, cut, flipped, make_clip, motion_cfg, motion_env, step
from tests.support.small_env import make_cfg


def turn(roll: float, pitch: float, yaw: float) -> Tensor:
    return quat_from_euler_xyz(*torch.tensor([roll, pitch, yaw]))


def put_root(env: ManagerBasedRlEnv, pose: Tensor, velocity: Tensor) -> None:
    """Write a root state into all rows, and let the command see it."""
    robot, rows = env.view.entity("robot"), torch.ones(env.num_envs, dtype=torch.bool)
    writes = env.view.writes
    writes.begin_step()
    with writes.transaction(rows, "test"):
        writes.write_root_pose(robot, pose.expand(env.num_envs, 7), rows)
        writes.write_root_velocity(robot, velocity.expand(env.num_envs, 6), rows)
    writes.commit()


def test_value_is_the_references_joints() -> None:
    clip = make_clip(6)
    env = motion_env([clip])

    step(env, 2)

    expected = torch.cat((clip.joint_pos[2], clip.joint_vel[2])).expand(2, 4)
    torch.testing.assert_close(env.view.command("motion"), expected)
    torch.testing.assert_close(command_of(env).joint_vel, expected[:, 2:])


def test_the_reference_is_the_clip_at_the_frame() -> None:
    clip = make_clip(6)
    env = motion_env([clip], anchor="left")
    command = command_of(env)

    step(env, 3)

    assert command.frame.tolist() == [3, 3]
    for name in ("joint_pos", "body_pos", "body_quat", "body_lin_vel", "body_ang_vel"):
        torch.testing.assert_close(getattr(command, name)[1], getattr(clip, name)[3])
    torch.testing.assert_close(command.anchor_pos[0], clip.body_pos[3, 1])
    torch.testing.assert_close(command.anchor_quat[0], clip.body_quat[3, 1])


def test_storage_never_moves() -> None:
    env = motion_env([make_clip(4)])
    command = command_of(env)
    names = ("value", "frame", "clip_end", "joint_pos", "body_pos", "anchor_pos", "relative_pos", "relative_quat")
    before = [getattr(command, name).data_ptr() for name in names]

    step(env, 5)

    assert [getattr(command, name).data_ptr() for name in names] == before


def test_a_robot_that_started_exactly_there_is_at_its_targets() -> None:
    command = command_of(motion_env([cut(make_clip(60), 20)]))

    torch.testing.assert_close(command.robot_body_pos, command.body_pos, atol=1e-6, rtol=0)
    torch.testing.assert_close(command.robot_body_lin_vel, command.body_lin_vel, atol=1e-6, rtol=0)
    torch.testing.assert_close(command.robot_body_ang_vel, command.body_ang_vel, atol=1e-6, rtol=0)
    torch.testing.assert_close(command.relative_pos, command.body_pos, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        quat_angle(command.relative_quat, command.robot_body_quat), torch.zeros(2, 3), atol=1e-5, rtol=0
    )


def test_targets_stand_around_a_yawed_and_shifted_robot_at_the_motions_heights() -> None:
    env = motion_env([make_clip(4)])
    command = command_of(env)

    # A quarter turn, and leaning by 0.3 rad, which the targets do not follow.
    put_root(env, torch.cat((torch.tensor([3.0, 4.0, 0.9]), turn(0.3, 0.0, math.pi / 2))), torch.zeros(6))

    # At frame 0 the base stands at (0, 0, 0.5) without a turn, the hips 0.15 m to its sides.
    expected = torch.tensor([[3.0, 4.0, 0.5], [2.85, 4.0, 0.5], [3.15, 4.0, 0.5]])
    torch.testing.assert_close(command.relative_pos[0], expected)
    torch.testing.assert_close(command.relative_quat[0], turn(0.0, 0.0, math.pi / 2).expand(3, 4), atol=1e-6, rtol=0)


def test_targets_turn_by_the_difference_of_the_headings() -> None:
    # The clip begins at a heading of 0.4 * 0.02 * 50 = 0.4 rad and leans nowhere.
    env = motion_env([cut(make_clip(60), 50)], anchor="base")
    command = command_of(env)

    put_root(env, torch.cat((torch.tensor([0.0, 0.0, 0.5]), turn(0.0, 0.0, 1.0))), torch.zeros(6))

    x, y = -0.15 * math.sin(1.0), 0.15 * math.cos(1.0)
    torch.testing.assert_close(command.relative_pos[0, 1, :2], torch.tensor([x, y]))
    legs = quat_mul(turn(0.0, 0.0, 0.6), command.body_quat[0, 1])
    torch.testing.assert_close(command.relative_quat[0, 1], legs)


def test_targets_turn_by_the_heading_of_the_turn_between_two_anchors_that_lean() -> None:
    """The difference of two leaning anchors' own headings is another angle."""
    clip = make_clip(4)
    lean = turn(0.9, 0.0, 0.8)
    quat = clip.body_quat.clone()
    quat[:, 0] = lean
    command = command_of(env := motion_env([replace(clip, body_quat=quat)]))

    # From the reference to the robot: 0.8 rad about y, which has no heading, then 0.7 rad about z.
    robot = quat_mul(turn(0.0, 0.0, 0.7), quat_mul(turn(0.0, 0.8, 0.0), lean))
    put_root(env, torch.cat((torch.tensor([3.0, 4.0, 0.9]), robot)), torch.zeros(6))

    assert abs(float(yaw_of(robot) - yaw_of(lean)) - 0.7) > 0.1
    left = torch.tensor([3.0 - 0.15 * math.sin(0.7), 4.0 + 0.15 * math.cos(0.7), 0.5])
    torch.testing.assert_close(command.relative_pos[0, 1], left)
    legs = quat_mul(turn(0.0, 0.0, 0.7), clip.body_quat[0, 1])
    torch.testing.assert_close(command.relative_quat[0, 1], legs, atol=1e-6, rtol=0)


def test_another_anchor_is_the_point_that_targets_turn_about() -> None:
    env = motion_env([make_clip(4)], anchor="left")
    command = command_of(env)

    put_root(env, torch.cat((torch.tensor([0.0, 0.0, 0.5]), turn(0.0, 0.0, math.pi / 2))), torch.zeros(6))

    # The robot's left leg is at (-0.15, 0); seen from there the base lies 0.15 m to the right, which is +x now.
    torch.testing.assert_close(command.relative_pos[0, :, :2], torch.tensor([[0.0, 0.0], [-0.15, 0.0], [0.15, 0.0]]))


def test_signs_of_quaternions_do_not_matter() -> None:
    clip = cut(make_clip(60), 30)
    shove: dict[str, Any] = {
        "pose": {"x": (0.1, 0.1), "roll": (0.2, 0.2), "yaw": (0.3, 0.3)},
        "velocity": {"pitch": (0.5, 0.5)},
    }
    plain, other = motion_env([clip], **shove), motion_env([flipped(clip)], **shove)
    a, b = command_of(plain), command_of(other)

    for _ in range(3):
        torch.testing.assert_close(a.relative_pos, b.relative_pos)
        torch.testing.assert_close(rot6(a.relative_quat), rot6(b.relative_quat))
        torch.testing.assert_close(a.robot_body_pos, b.robot_body_pos)
        torch.testing.assert_close(a.robot_body_ang_vel, b.robot_body_ang_vel)
        step(plain)
        step(other)
        for name, total in a.metrics.items():
            torch.testing.assert_close(total, b.metrics[name], atol=1e-5, rtol=1e-5)


def test_a_start_adds_offsets_in_world_axes() -> None:
    clip = cut(make_clip(60), 50)
    env = motion_env(
        [clip],
        pose={"x": (0.5, 0.5), "z": (-0.1, -0.1), "roll": (0.2, 0.2)},
        velocity={"y": (1.0, 1.0), "roll": (2.0, 2.0)},
        joint_pos=(0.1, 0.1),
    )
    qpos, qvel = env.view.state.qpos[0], env.view.state.qvel[0]

    torch.testing.assert_close(qpos[:3], clip.body_pos[0, 0] + torch.tensor([0.5, 0.0, -0.1]))
    orientation = quat_mul(turn(0.2, 0.0, 0.0), turn(0.0, 0.0, 0.4))
    torch.testing.assert_close(qpos[3:7], orientation)
    torch.testing.assert_close(qvel[:3], torch.tensor([0.5, 1.0, 0.1]))
    # World (2, 0, 0.4), and the sensor reads the world's axes.
    torch.testing.assert_close(command_of(env).robot_body_ang_vel[0, 0], torch.tensor([2.0, 0.0, 0.4]))
    torch.testing.assert_close(qpos[7:], clip.joint_pos[0] + 0.1)
    torch.testing.assert_close(qvel[6:], clip.joint_vel[0])


def test_starting_joints_stay_inside_their_limits() -> None:
    env = motion_env([make_clip(4)], joint_pos=(2.0, 2.0))

    assert env.view.state.qpos[0, 7:].tolist() == [1.0, 1.0]


def test_starts_differ_from_row_to_row_within_their_ranges() -> None:
    env = motion_env([make_clip(4)], 64, sampling="start", pose={"x": (-0.05, 0.05)}, joint_pos=(-0.1, 0.1))
    x, joints = env.view.state.qpos[:, 0], env.view.state.qpos[:, 7:]

    assert x.abs().max() <= 0.05
    assert x.std() > 0.02
    assert joints.abs().max() <= 0.1
    assert (joints[:, 0] - joints[:, 1]).abs().max() > 0.05


def test_metrics_are_the_errors_of_the_rewarded_frame() -> None:
    env = motion_env(
        [make_clip(60)], 1, pose={"x": (0.3, 0.3), "y": (0.4, 0.4), "yaw": (0.5, 0.5)}, joint_pos=(0.3, 0.3)
    )

    put_root(env, torch.cat((torch.tensor([0.3, 0.4, 0.5]), turn(0.0, 0.0, 0.5))), torch.zeros(6))
    env.commands.advance()
    command = command_of(env)
    command.measure()

    found = {name: float(total[0]) for name, total in command.metrics.items()}
    assert found["error_anchor_pos"] == pytest.approx(0.5)
    assert found["error_anchor_rot"] == pytest.approx(0.5, abs=1e-5)
    # Around the robot every body is where it should be; the legs are 0.3 rad off, the base is not.
    assert found["error_body_pos"] == pytest.approx(0.0, abs=1e-6)
    assert found["error_body_rot"] == pytest.approx(0.2, abs=1e-5)
    assert found["error_joint_pos"] == pytest.approx(0.3 * math.sqrt(2.0))
    assert found["error_joint_vel"] == pytest.approx(0.0, abs=1e-6)
    assert "sampling_entropy" not in found


def test_adaptive_starts_are_shown_as_metrics() -> None:
    env = motion_env([make_clip(60)], sampling="adaptive")

    step(env, 2)

    means = env.commands.metrics()
    torch.testing.assert_close(means["motion/sampling_entropy"], torch.ones(2))
    torch.testing.assert_close(means["motion/sampling_top1_prob"], torch.full((2,), 0.5))


def test_numbers_of_the_adaptive_starts_may_change_while_it_runs() -> None:
    env = motion_env([make_clip(60)], sampling="adaptive", uniform_ratio=0.2)

    assert env.view.tunable("commands.motion.params.rate") == torch.tensor(0.001)
    assert env.view.tunable("commands.motion.params.uniform_ratio") == torch.tensor(0.2)


def _fake_env(clips: list[MotionClip], **params: Any) -> ManagerBasedRlEnv:
    cfg = make_cfg(commands={"motion": motion_cfg(**params)})
    return ManagerBasedRlEnv(cfg, FakeBackend(2), seed=0, clips=clips)


def test_an_anchor_that_is_not_tracked_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"commands.motion: 'head', the anchor, is not tracked: add it"):
        motion_env([make_clip(4)], anchor="head")


def test_a_root_body_that_is_not_tracked_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'base', the root body of the entity, is not tracked: add it"):
        motion_env([make_clip(4)], anchor="left", bodies=("left", "right"))


def test_a_body_named_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bodies names one twice"):
        motion_env([make_clip(4)], bodies=("base", "left", "left"))


def test_a_model_without_the_sensors_is_refused() -> None:
    pos, vel = (torch.zeros(4, 3) for _ in range(2))
    clip = replace(make_clip(4), joints=JOINTS, bodies=("trunk", "foot", "shank"), joint_pos=pos, joint_vel=vel)

    with pytest.raises(ConfigurationError, match=r"commands.motion: the model has no sensor 'trunk_pos': build"):
        _fake_env([clip], bodies=("trunk", "foot"), anchor="trunk")


def test_no_clip_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"commands.motion: no reference motion is given: name at least one"):
        motion_env([])


def test_a_clip_at_another_rate_than_the_control_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"\(walk\) has 30 frames a second and the environment takes 50 steps"):
        motion_env([make_clip(4, fps=30.0)])


def test_a_clip_of_another_robot_is_refused() -> None:
    with pytest.raises(DataError, match="unknown joint 'left_joint'"):
        motion_env([replace(make_clip(4), joints=("a", "b"))])


def test_an_unknown_way_of_sampling_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'adaptive'"):
        motion_env([make_clip(4)], sampling="adaptiv", bodies=BODIES)
