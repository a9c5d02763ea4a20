"""Command terms: planar velocity with heading and standing rows, and a pose in the base frame."""

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.command import CommandTerm
from domain.managers.state import set_rows
from domain.managers.terms import POSE_AXES, Fraction, NonNegative, PoseRanges, Range
from domain.rng import Draw
from domain.rotations import quat_from_euler_xyz, wrap_to_pi, yaw_of
from domain.view import EnvView


class UniformVelocityCommand(CommandTerm):
    """Planar velocity command (vx, vy in m/s, yaw rate in rad/s, base frame), uniform in ranges.

    Args:
        lin_vel_x: m/s.
        lin_vel_y: m/s.
        ang_vel_z: rad/s.
        heading: rad, world; rows with a heading turn towards it instead of at a drawn yaw rate.
        heading_share: Share of rows that have a heading.
        heading_stiffness: Yaw rate per rad of heading error, 1/s; the result stays inside ang_vel_z.
        standing_share: Share of rows whose command is zero.
        min_speed: Planar commands no faster than this, m/s, become zero; the yaw rate stays.
        lin_vel_sensor: Velocimeter for the tracking error; None leaves the metric out.
        ang_vel_sensor: Gyro for the tracking error; None leaves the metric out.

    Raises:
        ConfigurationError: Headings are asked for without a range or a free base.
    """

    draw_width = 6

    def __init__(
        self,
        env: EnvView,
        *,
        lin_vel_x: Range,
        lin_vel_y: Range,
        ang_vel_z: Range,
        standing_share: Fraction,
        heading: Range | None = None,
        heading_share: Fraction | None = None,
        heading_stiffness: NonNegative | None = None,
        min_speed: NonNegative | None = None,
        lin_vel_sensor: str | None = None,
        ang_vel_sensor: str | None = None,
        entity: str = "robot",
    ) -> None:
        super().__init__(env, 3)
        self._spans = (lin_vel_x, lin_vel_y, ang_vel_z)
        self._standing_share = standing_share
        self._min_speed = min_speed
        self._heading = heading
        given = [heading is not None, heading_share is not None, heading_stiffness is not None]
        if any(given) and not all(given):
            raise ConfigurationError("headings need heading, heading_share and heading_stiffness together")
        if heading is not None and heading_share is not None and heading_stiffness is not None:
            self._entity = env.entity(entity)
            self._entity.require_floating("a heading command")
            self._heading_share, self._stiffness = heading_share, heading_stiffness
            self._target = self.keep_rows("heading", env.num_envs, device=env.device)
            self._has_heading = self.keep_rows("has_heading", env.num_envs, device=env.device, dtype=torch.bool)
        self._errors = []
        if lin_vel_sensor is not None:
            self._errors.append((env.sensor(lin_vel_sensor)[:, :2], slice(0, 2), self.metric("error_vel_xy")))
        if ang_vel_sensor is not None:
            self._errors.append((env.sensor(ang_vel_sensor)[:, 2:3], slice(2, 3), self.metric("error_vel_yaw")))

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Draw new commands for the rows under ``mask``."""
        u = draw.uniform()
        low, high = torch.stack(self._spans, dim=1)
        value = torch.addcmul(low, u[:, :3], high - low)
        if self._min_speed is not None:
            slow = torch.linalg.vector_norm(value[:, :2], dim=1, keepdim=True) <= self._min_speed
            value[:, :2] = torch.where(slow, 0.0, value[:, :2])
        moving = u[:, 4:5] >= self._standing_share
        set_rows(self.value, mask, value * moving)
        if self._heading is not None:
            set_rows(self._target, mask, u[:, 3] * (self._heading[1] - self._heading[0]) + self._heading[0])
            set_rows(self._has_heading, mask, (u[:, 5] < self._heading_share) & moving[:, 0])
            self._turn(mask)

    def update(self, live: Tensor) -> None:
        """Steer rows with a heading."""
        if self._heading is not None:
            self._turn(live)

    def measure(self) -> None:
        """Add the tracking errors of the finished step."""
        for measured, columns, total in self._errors:
            total += torch.linalg.vector_norm(self.value[:, columns] - measured, dim=1)

    def _turn(self, mask: Tensor) -> None:
        # The staged pose: at a reset the state still shows the episode before.
        quat = self.env.writes.root_pose(self._entity)[:, 3:7]
        error = wrap_to_pi(self._target - yaw_of(quat))
        low, high = self._spans[2][0], self._spans[2][1]
        rate = (self._stiffness * error).clamp(low, high)
        set_rows(self.value[:, 2], mask & self._has_heading, rate)


class UniformPoseCommand(CommandTerm):
    """A pose in the base frame, (num_envs, 7): position m, quaternion w first; uniform in ranges.

    Args:
        pose: x, y, z in m; roll, pitch, yaw in rad.
    """

    draw_width = len(POSE_AXES)

    def __init__(self, env: EnvView, *, pose: PoseRanges) -> None:
        super().__init__(env, 7)
        self._pose = pose
        self.value[:, 3] = 1.0

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Draw new poses for the rows under ``mask``."""
        drawn = draw.between(self._pose[0], self._pose[1])
        quat = quat_from_euler_xyz(drawn[:, 3], drawn[:, 4], drawn[:, 5])
        set_rows(self.value, mask, torch.cat((drawn[:, :3], quat), dim=1))
