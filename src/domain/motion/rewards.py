"""Reward terms for following a reference motion; each returns (num_envs,) float32.

Tracking terms are exp(-mean squared error / std^2), in (0, 1], 1 where robot and reference agree. Body terms take the
mean over the command's tracked bodies.

Source:
    Public unilab 1.5.2, motion tracking task.
"""

import torch
from torch import Tensor

from domain.managers.terms import Finite, Positive
from domain.motion.command import MotionCommand
from domain.rotations import quat_angle
from domain.view import EnvView


def track_anchor_pos(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward an anchor body at its place in the world; ``std`` in m."""
    motion = env.command_term(command, MotionCommand)
    return _kernel((motion.anchor_pos - motion.robot_anchor_pos).square().sum(dim=1), std)


def track_anchor_ori(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward an anchor body with its orientation in the world; ``std`` in rad."""
    motion = env.command_term(command, MotionCommand)
    return _kernel(quat_angle(motion.anchor_quat, motion.robot_anchor_quat).square(), std)


def track_body_pos(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward bodies at their places relative to the anchor, heights those of the motion; ``std`` in m."""
    motion = env.command_term(command, MotionCommand)
    return _kernel(_mean_square(motion.relative_pos - motion.robot_body_pos), std)


def track_body_ori(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward bodies with their orientations relative to the anchor's heading; ``std`` in rad."""
    motion = env.command_term(command, MotionCommand)
    angle = quat_angle(motion.relative_quat, motion.robot_body_quat)
    return _kernel(angle.square().mean(dim=1), std)


def track_body_lin_vel(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward bodies with the motion's linear velocities, world frame; ``std`` in m/s."""
    motion = env.command_term(command, MotionCommand)
    return _kernel(_mean_square(motion.body_lin_vel - motion.robot_body_lin_vel), std)


def track_body_ang_vel(env: EnvView, *, command: str, std: Positive) -> Tensor:
    """Reward bodies with the motion's angular velocities, world frame; ``std`` in rad/s."""
    motion = env.command_term(command, MotionCommand)
    return _kernel(_mean_square(motion.body_ang_vel - motion.robot_body_ang_vel), std)


def track_joint_pos(env: EnvView, *, command: str, std: Positive, entity: str = "robot") -> Tensor:
    """Reward joints at the motion's positions, mean over joints; ``std`` in rad or m."""
    motion = env.command_term(command, MotionCommand)
    return _kernel((motion.joint_pos - env.entity(entity).joint_pos).square().mean(dim=1), std)


def track_joint_vel(env: EnvView, *, command: str, std: Positive, entity: str = "robot") -> Tensor:
    """Reward joints with the motion's velocities, mean over joints; ``std`` in rad/s or m/s."""
    motion = env.command_term(command, MotionCommand)
    return _kernel((motion.joint_vel - env.entity(entity).joint_vel).square().mean(dim=1), std)


class BodiesBelow:
    """Number of bodies whose frame's origin is lower than a height: contacts that are not wanted, without a sensor.

    Args:
        command: Name of a motion command.
        bodies: Names or patterns of tracked bodies.
        height: Above the world's floor, m.

    Raises:
        ConfigurationError: A pattern fits no tracked body, or two fit the same.
    """

    def __init__(self, env: EnvView, *, command: str, bodies: tuple[str, ...], height: Finite) -> None:
        self._motion = env.command_term(command, MotionCommand)
        self._ids = self._motion.body_ids(bodies)
        self._height = height

    def __call__(self) -> Tensor:
        """Return (num_envs,), from 0 to the number of bodies."""
        return (self._motion.robot_body_pos[:, self._ids, 2] < self._height).float().sum(dim=1)


def _kernel(error: Tensor, std: Tensor) -> Tensor:
    return torch.exp(-error / std.square())


def _mean_square(error: Tensor) -> Tensor:
    """Return the mean over bodies of the squared length of (num_envs, bodies, 3)."""
    return error.square().sum(dim=-1).mean(dim=1)
