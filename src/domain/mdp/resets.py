"""Events that place a robot: root and joints at resets, pushes in between, encoder bias."""

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.managers.state import set_rows
from domain.managers.terms import PoseRanges, Range
from domain.rotations import quat_from_euler_xyz, quat_mul, quat_rotate_inverse
from domain.view import EnvView


class ResetRootUniform:
    """Puts a free base to its default plus uniform offsets, in world axes.

    Args:
        pose: x, y, z in m, roll, pitch, yaw in rad, applied before the default orientation.
        velocity: Linear m/s and angular rad/s, world frame.

    Raises:
        ConfigurationError: The entity has no free base.
    """

    modes = ("reset",)

    def __init__(self, env: EnvView, *, pose: PoseRanges, velocity: PoseRanges, entity: str = "robot") -> None:
        self._env = env
        self._entity = env.entity(entity)
        self._entity.require_floating("a root reset")
        self._pose, self._velocity = pose, velocity
        self._draws = (env.rng.reserve(6), env.rng.reserve(6))

    def __call__(self, mask: Tensor) -> None:
        """Stage new root states for the rows under ``mask``."""
        offset = self._draws[0].between(self._pose[0], self._pose[1])
        velocity = self._draws[1].between(self._velocity[0], self._velocity[1])
        default = self._entity.default_root_pose
        turn = quat_from_euler_xyz(offset[:, 3], offset[:, 4], offset[:, 5])
        quat = quat_mul(default[:, 3:7], turn)
        pose = torch.cat((default[:, :3] + offset[:, :3], quat), dim=1)
        twist = torch.cat((velocity[:, :3], quat_rotate_inverse(quat, velocity[:, 3:])), dim=1)
        self._env.writes.write_root_pose(self._entity, pose, mask)
        self._env.writes.write_root_velocity(self._entity, twist, mask)


class ResetJointsUniform:
    """Puts joints to their default plus uniform offsets, within their limits.

    Args:
        position: Offset from the default, rad or m.
        velocity: rad/s or m/s.
        joints: Which; the others keep what is staged.
    """

    modes = ("reset",)

    def __init__(self, env: EnvView, *, position: Range, velocity: Range, joints: EntitySelection) -> None:
        self._env = env
        self._joints = joints
        self._position, self._velocity = position, velocity
        width = len(joints.joint_names)
        self._draws = (env.rng.reserve(width), env.rng.reserve(width))
        ids = torch.arange(len(joints.entity.index.joints), device=env.device)
        self._ids = ids[joints.joint_ids]

    def __call__(self, mask: Tensor) -> None:
        """Stage new joint states for the rows under ``mask``."""
        joints, entity, ids = self._joints, self._joints.entity, self._ids
        pos = joints.default_joint_pos + self._draws[0].between(self._position[0], self._position[1])
        pos = torch.maximum(torch.minimum(pos, joints.joint_high), joints.joint_low)
        vel = self._draws[1].between(self._velocity[0], self._velocity[1])
        staged_pos, staged_vel = self._env.writes.joints(entity)
        self._env.writes.write_joints(
            entity, staged_pos.index_copy(1, ids, pos), staged_vel.index_copy(1, ids, vel), mask
        )


class PushRoot:
    """Adds uniform deltas to a free base's velocity: linear m/s and angular rad/s, world frame.

    Raises:
        ConfigurationError: The entity has no free base.
    """

    modes = ("interval", "step")

    def __init__(self, env: EnvView, *, velocity: PoseRanges, entity: str = "robot") -> None:
        self._env = env
        self._entity = env.entity(entity)
        self._entity.require_floating("a push")
        self._velocity = velocity
        self._draw = env.rng.reserve(6)

    def __call__(self, mask: Tensor) -> None:
        """Stage the pushed velocities of the rows under ``mask``."""
        delta = self._draw.between(self._velocity[0], self._velocity[1])
        writes = self._env.writes
        quat = writes.root_pose(self._entity)[:, 3:7]
        twist = torch.cat((delta[:, :3], quat_rotate_inverse(quat, delta[:, 3:])), dim=1)
        writes.write_root_velocity(self._entity, writes.root_velocity(self._entity) + twist, mask)


class RandomizeEncoderBias:
    """Draws a constant error of each joint encoder, rad or m, one a joint and row."""

    modes = ("startup", "reset")

    def __init__(self, env: EnvView, *, bias: Range, joints: EntitySelection) -> None:
        self._entity = joints.entity
        self._bias = bias
        self._draw = env.rng.reserve(len(joints.entity.index.joints))
        chosen = torch.zeros(len(joints.entity.index.joints), dtype=torch.bool, device=env.device)
        chosen[joints.joint_ids] = True
        self._chosen = chosen

    def __call__(self, mask: Tensor) -> None:
        """Redraw the rows under ``mask``."""
        drawn = self._draw.between(self._bias[0], self._bias[1])
        bias = self._entity.encoder_bias
        set_rows(bias, mask, torch.where(self._chosen, drawn, bias))
