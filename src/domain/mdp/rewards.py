"""Reward terms; each returns (num_envs,) float32. Weights and the step length belong to the manager."""

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.errors import ConfigurationError
from domain.managers.state import Stateful, set_rows
from domain.managers.terms import Finite, NonNegative, Positive
from domain.view import EnvView


def alive(env: EnvView) -> Tensor:
    """Return 1 for rows that have not failed."""
    return (~env.terminated).float()


def constant(env: EnvView) -> Tensor:
    """Return 1, in a step that fails too."""
    return torch.ones(env.num_envs, device=env.device)


def terminated(env: EnvView) -> Tensor:
    """Return 1 for rows that failed in this step; time-outs do not count."""
    return env.terminated.float()


def track_planar_velocity(env: EnvView, *, command: str, sensor: str, sigma: Positive) -> Tensor:
    """Reward a planar velocity close to the commanded one: exp(-|error|^2 / sigma).

    Args:
        env: Reads the first two columns of the command and of the sensor, m/s, body frame.
        command: Name of a velocity command (vx, vy, wz).
        sensor: A velocimeter.
        sigma: Width of the kernel, (m/s)^2.

    Source:
        Public unilab 1.5.2, ``track_lin_vel``.
    """
    error = env.command(command)[:, :2] - env.sensor(sensor)[:, :2]
    return torch.exp(-error.square().sum(dim=1) / sigma)


def track_yaw_rate(env: EnvView, *, command: str, sensor: str, sigma: Positive) -> Tensor:
    """Reward a yaw rate close to the commanded one: exp(-error^2 / sigma), sigma in (rad/s)^2.

    Source:
        Public unilab 1.5.2, ``track_ang_vel``.
    """
    error = env.command(command)[:, 2] - env.sensor(sensor)[:, 2]
    return torch.exp(-error.square() / sigma)


def vertical_velocity_l2(env: EnvView, *, sensor: str) -> Tensor:
    """Return the squared vertical velocity of a velocimeter, (m/s)^2."""
    return env.sensor(sensor)[:, 2].square()


def roll_pitch_rate_l2(env: EnvView, *, sensor: str) -> Tensor:
    """Return the squared roll and pitch rates of a gyro, (rad/s)^2."""
    return env.sensor(sensor)[:, :2].square().sum(dim=1)


def base_height_l2(env: EnvView, *, target: Finite, entity: str = "robot") -> Tensor:
    """Return the squared distance of the base's world height from ``target``, m^2."""
    return (env.entity(entity).root_pos[:, 2] - target).square()


def flat_orientation_l2(env: EnvView, *, sensor: str) -> Tensor:
    """Return the squared horizontal part of an up-vector sensor; 0 when upright."""
    return env.sensor(sensor)[:, :2].square().sum(dim=1)


def action_rate_l2(env: EnvView) -> Tensor:
    """Return the squared change of the raw action since the step before, summed over columns."""
    return (env.action - env.previous_action).square().sum(dim=1)


def action_acceleration_l2(env: EnvView) -> Tensor:
    """Return the squared second difference of the raw action, summed over columns."""
    return (env.action - 2.0 * env.previous_action + env.action_before_previous).square().sum(dim=1)


def joint_deviation_l1(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return the distance of joints from their defaults, summed over joints, rad or m."""
    return (joints.joint_pos - joints.default_joint_pos).abs().sum(dim=1)


def joint_velocity_l2(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return squared joint velocities, summed over joints, (rad/s)^2 or (m/s)^2."""
    return joints.joint_vel.square().sum(dim=1)


def joint_limit_violation(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return how far joints are beyond their hard range, summed over joints, rad or m."""
    return _beyond_range(joints).sum(dim=1)


def joint_limit_violation_l2(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return the squares of how far joints are beyond their hard range, summed over joints, rad^2 or m^2."""
    return _beyond_range(joints).square().sum(dim=1)


class JointDeviationL2:
    """Squared distance of joints from their defaults, each times its weight, summed over joints, rad^2 or m^2.

    Args:
        joints: Which.
        weights: One number, or one a chosen joint.

    Raises:
        ConfigurationError: There are not as many weights as joints.
    """

    def __init__(self, env: EnvView, *, joints: EntitySelection, weights: NonNegative) -> None:
        width = len(joints.joint_names)
        if weights.numel() not in (1, width):
            raise ConfigurationError(f"weights has {weights.numel()} numbers for {width} joints: give 1 or all")
        self._joints, self._weights = joints, weights

    def __call__(self) -> Tensor:
        """Return (num_envs,)."""
        distance = self._joints.joint_pos - self._joints.default_joint_pos
        return (distance.square() * self._weights).sum(dim=1)


class JointAccelerationL2(Stateful):
    """Squared joint accelerations by finite differences over a control step, summed over joints.

    The first step of an episode counts as without acceleration.
    """

    def __init__(self, env: EnvView, *, joints: EntitySelection) -> None:
        super().__init__()
        self._joints = joints
        self._dt = env.step_dt
        width = len(joints.joint_names)
        self._previous = self.keep_rows("previous", env.num_envs, width, device=env.device)
        self._seen = self.keep_rows("seen", env.num_envs, device=env.device, dtype=torch.bool)

    def __call__(self) -> Tensor:
        """Return (num_envs,), (rad/s^2)^2 or (m/s^2)^2."""
        velocity = self._joints.joint_vel
        acceleration = (velocity - self._previous) / self._dt
        value = torch.where(self._seen, acceleration.square().sum(dim=1), 0.0)
        self._previous.copy_(velocity)
        self._seen.fill_(True)
        return value

    def reset(self, mask: Tensor) -> None:
        """Forget the velocity of the rows under ``mask``."""
        set_rows(self._seen, mask, False)


def _beyond_range(joints: EntitySelection) -> Tensor:
    pos = joints.joint_pos
    return (joints.joint_low - pos).clamp(min=0.0) + (pos - joints.joint_high).clamp(min=0.0)
