"""Observation terms; each returns (num_envs, width) float32."""

import torch
from torch import Tensor

from domain.entity import EntitySelection, EntitySelector
from domain.rotations import quat_rotate_inverse
from domain.view import EnvView

ROBOT = EntitySelector()


def sensor(env: EnvView, *, sensor: str) -> Tensor:
    """Return a sensor's reading, (num_envs, dim), in the sensor's own unit and frame."""
    return env.sensor(sensor)


def projected_gravity_from_up_sensor(env: EnvView, *, sensor: str) -> Tensor:
    """Return minus an up-vector sensor, (num_envs, 3); (0, 0, -1) when upright.

    A frame z axis sensor gives the axis in the world frame, so x and y equal gravity in the body
    frame only near upright, up to sign.
    """
    return -env.sensor(sensor)


def projected_gravity(env: EnvView, *, entity: str = "robot") -> Tensor:
    """Return the direction of gravity in the base frame, (num_envs, 3), unit length."""
    quat = env.entity(entity).root_quat
    down = torch.zeros_like(quat[:, :3])
    down[:, 2] = -1.0
    return quat_rotate_inverse(quat, down)


def base_lin_vel(env: EnvView, *, entity: str = "robot") -> Tensor:
    """Return the base's linear velocity in its own frame, (num_envs, 3), m/s."""
    robot = env.entity(entity)
    return quat_rotate_inverse(robot.root_quat, robot.root_lin_vel)


def base_ang_vel(env: EnvView, *, entity: str = "robot") -> Tensor:
    """Return the base's angular velocity in its own frame, (num_envs, 3), rad/s."""
    return env.entity(entity).root_ang_vel


def base_height(env: EnvView, *, entity: str = "robot") -> Tensor:
    """Return the base's height in the world, (num_envs, 1), m."""
    return env.entity(entity).root_pos[:, 2:3]


def joint_pos_rel(env: EnvView, *, joints: EntitySelection, biased: bool = False) -> Tensor:
    """Return joint positions less their defaults, (num_envs, joints), rad or m.

    ``biased`` adds the encoder bias, as a real encoder would.
    """
    value = joints.joint_pos - joints.default_joint_pos
    return value + joints.encoder_bias if biased else value


def joint_vel_rel(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return joint velocities, (num_envs, joints), rad/s or m/s; their defaults are zero."""
    return joints.joint_vel


def joint_pos_cos_sin(env: EnvView, *, joints: EntitySelection) -> Tensor:
    """Return cosines, then sines of joint positions, (num_envs, 2 * joints): angles without a jump."""
    pos = joints.joint_pos
    return torch.cat((torch.cos(pos), torch.sin(pos)), dim=1)


def last_action(env: EnvView) -> Tensor:
    """Return the raw action of the finished step, (num_envs, action dim)."""
    return env.action


def generated_command(env: EnvView, *, command: str) -> Tensor:
    """Return a command's value, (num_envs, dim)."""
    return env.command(command)
