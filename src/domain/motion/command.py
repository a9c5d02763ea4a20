"""The tracking command: where each row is in its reference motion, and how that compares with the robot."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from torch import Tensor

from domain.entity import Entity, match_names
from domain.errors import ConfigurationError, DataError
from domain.managers.command import CommandTerm
from domain.managers.state import set_rows
from domain.managers.terms import Bounds, Fraction, PoseRanges, Range
from domain.motion.samplers import AdaptiveSettings, Sampling, make_sampler
from domain.motion.table import MotionTable
from domain.motion.tracked_bodies import TrackedBodies
from domain.rng import Draw
from domain.rotations import (
    quat_angle,
    quat_conjugate,
    quat_from_euler_xyz,
    quat_mul,
    quat_rotate_inverse,
    turn_about_z,
    yaw_of,
)
from domain.view import EnvView

Share = Annotated[Tensor | float, Bounds(0.0, 1.0)]
AboveZero = Annotated[Tensor | float, Bounds(0.0, open_low=True)]
FPS_TOLERANCE = 1e-4
"""How far a clip's rate may be from one frame a control step, as a share."""


class MotionCommand(CommandTerm):
    """Follows the environment's clips, one frame a control step; all in the world frame, storage never moves.

    A row starts at a frame that ``sampling`` draws, with the robot put there, give or take the ranges. Rewards and
    terminations of a step see the frame that the policy was shown; then the row moves on to the next one, which the
    observations show. After a clip's last frame a row either starts anew in place, or stays there until a termination
    truncates it.

    Of the reference: ``value`` (num_envs, 2 joints) is joint_pos | joint_vel; ``frame`` (num_envs,) int64 a row of the
    table, ``clip_end`` the last one of its clip; ``joint_pos``, ``joint_vel`` (num_envs, joints), ``body_pos``,
    ``body_lin_vel``, ``body_ang_vel`` (num_envs, bodies, 3), ``body_quat`` (num_envs, bodies, 4), ``anchor_pos``
    (num_envs, 3) and ``anchor_quat`` (num_envs, 4) the state at that frame.
    Of the robot: ``robot_body_pos``, ``robot_body_quat``, ``robot_body_lin_vel``, ``robot_body_ang_vel``,
    ``robot_anchor_pos`` and ``robot_anchor_quat`` have the same shapes.
    Targets: ``relative_pos`` and ``relative_quat`` are the reference's bodies, moved level and turned about z so that
    its anchor stands where the robot's does; heights stay the motion's own. They are derived when they are read, in a
    step once for its terminations, rewards and metrics.

    Args:
        bodies: Tracked bodies, the robot's root body among them; the scene has sensors for them.
        anchor: The tracked body that stands for the robot's place and heading.
        sampling: ``start`` (frame 0), ``clip_start`` (of any clip), ``uniform`` (any frame), ``mixed`` (frame 0 or
            any), ``adaptive`` (more often where episodes failed).
        pose: Offset of the root at a start, m and rad; turns apply after the motion's orientation, about world axes.
        velocity: Offset of the root's velocity at a start, world frame, m/s and rad/s.
        joint_pos: Offset of each joint at a start, rad or m; the result stays within the joint's limits.
        truncate_on_clip_end: Whether a row waits at the clip's end for its truncation, instead of starting anew there.
        start_share: Share of ``mixed`` starts at frame 0.
        rate: ``adaptive``: weight of one step's failures in their moving average.
        uniform_ratio: ``adaptive``: weight of all bins together besides their failures, each by its frames.
        kernel_size: ``adaptive``: how many bins, from its own on, count for a bin; 1 is no smoothing.
        kernel_decay: ``adaptive``: what a failure counts for the bin before, as a share.
        collect_statistics: Whether failures move the adaptive starts; an evaluation's must not.

    Raises:
        ConfigurationError: There is no clip, its rate is not one frame a control step, the base is fixed, the anchor
            or the root body is not tracked, or the model lacks a sensor.
        DataError: A clip lacks a joint or body.

    Source:
        Public unilab 1.5.2, motion tracking, with its older rule of when a row wraps: the new frame is past the end
        that was stored when the row was sampled.
    """

    timed = False

    def __init__(
        self,
        env: EnvView,
        *,
        bodies: tuple[str, ...],
        anchor: str,
        sampling: Sampling,
        pose: PoseRanges,
        velocity: PoseRanges,
        joint_pos: Range,
        truncate_on_clip_end: bool,
        start_share: Fraction | None = None,
        rate: Share = 0.001,
        uniform_ratio: AboveZero = 0.1,
        kernel_size: int = 1,
        kernel_decay: Share = 0.8,
        collect_statistics: bool = True,
        entity: str = "robot",
    ) -> None:
        self._entity = env.entity(entity)
        self._check(self._entity, bodies, anchor)
        joints = len(self._entity.index.joints)
        super().__init__(env, 2 * joints)
        self.bodies = tuple(bodies)
        self.table = MotionTable(env.clips, self._entity.index.joints, bodies, env.device)
        _check_rate(self.table, env)
        adaptive = AdaptiveSettings(
            rate=rate, uniform_ratio=uniform_ratio, kernel_size=kernel_size, kernel_decay=kernel_decay
        )
        self.sampler = make_sampler(sampling, self.table, start_share=start_share, adaptive=adaptive)
        self._spread = (pose, velocity, joint_pos)
        self._wraps = not truncate_on_clip_end
        self._collects = collect_statistics
        self._anchor, self._root = bodies.index(anchor), bodies.index(self._entity.index.root_body)
        self.draw_width = self.sampler.width + 12 + joints
        self._wrap_draw = env.rng.reserve(self.draw_width)
        self._make_reference()
        self._make_robot()
        self._make_metrics()

    @staticmethod
    def _check(entity: Entity, bodies: Sequence[str], anchor: str) -> None:
        """Refuse what cannot be tracked."""
        entity.require_floating("a motion command")
        for role, body in (("anchor", anchor), ("root body of the entity", entity.index.root_body)):
            if body not in bodies:
                raise ConfigurationError(f"'{body}', the {role}, is not tracked: add it to bodies")
        if len(set(bodies)) < len(bodies):
            raise ConfigurationError(f"bodies names one twice: {', '.join(bodies)}")

    def _make_reference(self) -> None:
        n, device, table = self.env.num_envs, self.env.device, self.table
        self.frame = self.keep_rows("frame", n, device=device, dtype=torch.int64)
        self.clip_end = self.keep("clip_end", table.clip_end[:1].repeat(n))
        self._rows = torch.zeros(n, table.width, device=device)
        views = table.views(self._rows)
        self.joint_pos, self.joint_vel = views.joint_pos, views.joint_vel
        self.body_pos, self.body_quat = views.body_pos, views.body_quat
        self.body_lin_vel, self.body_ang_vel = views.body_lin_vel, views.body_ang_vel
        self.anchor_pos, self.anchor_quat = self.body_pos[:, self._anchor], self.body_quat[:, self._anchor]
        self._relative_pos = torch.zeros(n, len(self.bodies), 3, device=device)
        self._relative_quat = torch.zeros(n, len(self.bodies), 4, device=device)
        self._in_step = self._aimed = False
        self._reference = self.keep("reference", table.fingerprint)
        self._look_up()

    def _make_robot(self) -> None:
        robot = TrackedBodies(self.env, self.bodies)
        self.robot_body_pos, self.robot_body_quat = robot.pos, robot.quat
        self.robot_body_lin_vel, self.robot_body_ang_vel = robot.lin_vel, robot.ang_vel
        self.robot_anchor_pos = self.robot_body_pos[:, self._anchor]
        self.robot_anchor_quat = self.robot_body_quat[:, self._anchor]

    def _make_metrics(self) -> None:
        bodies = [f"error_body_{kind}" for kind in ("pos", "rot", "lin_vel", "ang_vel")]
        for name in ("error_anchor_pos", "error_anchor_rot", *bodies, "error_joint_pos", "error_joint_vel"):
            self.metric(name)
        for name in self.sampler.figures():
            self.metric(name)

    def body_ids(self, patterns: Sequence[str]) -> Tensor:
        """Return which of ``bodies`` the patterns name, (chosen,) int64.

        Raises:
            ConfigurationError: A pattern fits no tracked body, or two fit the same.
        """
        chosen = match_names(patterns, self.bodies, "tracked body")
        return torch.tensor(chosen, dtype=torch.int64, device=self.env.device)

    def children(self) -> list[tuple[str, object]]:
        """What the sampler has learnt."""
        return [("sampler", self.sampler)]

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raise DataError for a state of another reference motion, in which frames mean something else."""
        super().check_state(state)
        saved = state["reference"].to(self._reference.device)
        if not torch.equal(saved, self._reference):
            what = "poses or velocities" if torch.equal(saved[1:], self._reference[1:]) else "lengths"
            raise DataError(
                f"the reference motion ({', '.join(clip.source for clip in self.env.clips)}) is another than the one "
                f"this run was trained on, its {what} differ: give the same file, or the same files in their order"
            )

    def copy_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``; the reference follows from the frames."""
        super().copy_state(state)
        self._look_up()

    @property
    def relative_pos(self) -> Tensor:
        """(num_envs, bodies, 3), m: targets of the bodies, for the present reference and robot."""
        self._aim()
        return self._relative_pos

    @property
    def relative_quat(self) -> Tensor:
        """(num_envs, bodies, 4): targets of the bodies, for the present reference and robot."""
        self._aim()
        return self._relative_quat

    def advance(self) -> None:
        """Let the targets follow the state after physics, to stay until ``update`` moves the frames."""
        self._in_step, self._aimed = True, False

    def measure(self) -> None:
        """Add the step's tracking errors: means over bodies in m, rad, m/s and rad/s, norms over joints."""
        norm = torch.linalg.vector_norm
        robot = self._entity
        errors = {
            "error_anchor_pos": norm(self.anchor_pos - self.robot_anchor_pos, dim=1),
            "error_anchor_rot": quat_angle(self.anchor_quat, self.robot_anchor_quat),
            "error_body_pos": norm(self.relative_pos - self.robot_body_pos, dim=2).mean(dim=1),
            "error_body_rot": quat_angle(self.relative_quat, self.robot_body_quat).mean(dim=1),
            "error_body_lin_vel": norm(self.body_lin_vel - self.robot_body_lin_vel, dim=2).mean(dim=1),
            "error_body_ang_vel": norm(self.body_ang_vel - self.robot_body_ang_vel, dim=2).mean(dim=1),
            "error_joint_pos": norm(self.joint_pos - robot.joint_pos, dim=1),
            "error_joint_vel": norm(self.joint_vel - robot.joint_vel, dim=1),
        }
        for name, error in {**errors, **self.sampler.figures()}.items():
            self.metrics[name] += error

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Start the rows under ``mask`` anew: reference and robot, whose state is staged."""
        self._start(mask, draw)
        self._look_up()
        self._place(mask, draw)

    def update(self, live: Tensor) -> None:
        """Count failures and move on by one frame; live rows past their clip's end start anew, robot included.

        Rows that are done move on too, but not past the end, so that their final observations are the true successors.

        Raises:
            SimulationError: Rows may have to start anew and no transaction is open; nothing has changed then.
        """
        if self._wraps:
            self.env.writes.require_open("a motion command that wraps")
        if self._collects:
            failed = self.env.terminated & ~self.env.state.diverged
            self.sampler.fold(self.frame, failed)
        self.frame += 1
        past = live & (self.frame > self.clip_end) if self._wraps else None
        torch.minimum(self.frame, self.clip_end, out=self.frame)
        if past is None or self.env.backend.skips(past):
            self._look_up()
            return
        self._start(past, self._wrap_draw)
        self._look_up()
        self._place(past, self._wrap_draw)

    def _start(self, mask: Tensor, draw: Draw) -> None:
        """Draw frames for the rows under ``mask``."""
        frame = self.sampler.sample(draw.uniform()[:, : self.sampler.width])
        set_rows(self.frame, mask, frame)
        set_rows(self.clip_end, mask, self.table.end_of[frame])

    def _look_up(self) -> None:
        """Let the reference follow the frames."""
        self._in_step = False
        self.table.lookup(self.frame, out=self._rows)
        self.value.copy_(self._rows[:, : self.value.shape[1]])

    def _place(self, mask: Tensor, draw: Draw) -> None:
        """Stage the reference's state, give or take the ranges, for the robots under ``mask``."""
        numbers = draw.uniform()[:, self.sampler.width :]
        pose_range, velocity_range, joint_range = self._spread
        offset = _between(numbers[:, :6], pose_range)
        shove = _between(numbers[:, 6:12], velocity_range)
        noise = _between(numbers[:, 12:], joint_range)
        turn = quat_from_euler_xyz(offset[:, 3], offset[:, 4], offset[:, 5])
        quat = quat_mul(turn, self.body_quat[:, self._root])
        spin = quat_rotate_inverse(quat, self.body_ang_vel[:, self._root] + shove[:, 3:])
        pose = torch.cat((self.body_pos[:, self._root] + offset[:, :3], quat), dim=1)
        twist = torch.cat((self.body_lin_vel[:, self._root] + shove[:, :3], spin), dim=1)
        robot, writes = self._entity, self.env.writes
        joints = torch.maximum(torch.minimum(self.joint_pos + noise, robot.joint_high), robot.joint_low)
        writes.write_root_pose(robot, pose, mask)
        writes.write_root_velocity(robot, twist, mask)
        writes.write_joints(robot, joints, self.joint_vel, mask)

    def _aim(self) -> None:
        """Carry the reference's bodies to the robot's anchor, in a step only once."""
        # A replayed recording moves everything and tells Python nothing: between steps nothing is taken for present.
        if self._in_step and self._aimed:
            return
        self._aimed = True
        between = quat_mul(self.robot_anchor_quat, quat_conjugate(self.anchor_quat))
        yaw = yaw_of(between).unsqueeze(1)
        cos, sin = torch.cos(yaw), torch.sin(yaw)
        x, y, _ = (self.body_pos - self.anchor_pos.unsqueeze(1)).unbind(-1)
        to_x, to_y, _ = self.robot_anchor_pos.unsqueeze(1).unbind(-1)
        turned = (to_x + cos * x - sin * y, to_y + sin * x + cos * y, self.body_pos[..., 2])
        torch.stack(turned, dim=-1, out=self._relative_pos)
        self._relative_quat.copy_(turn_about_z(yaw, self.body_quat))


def _check_rate(table: MotionTable, env: EnvView) -> None:
    """Raise ConfigurationError unless clips have one frame a control step."""
    steps = 1.0 / env.step_dt
    if abs(table.fps * env.step_dt - 1.0) > FPS_TOLERANCE:
        raise ConfigurationError(
            f"the reference motion ({env.clips[0].source}) has {table.fps:g} frames a second and the environment takes "
            f"{steps:g} steps: convert the motion to {steps:g} fps, or change sim_dt and decimation"
        )


def _between(numbers: Tensor, span: Tensor) -> Tensor:
    """Spread uniform numbers in [0, 1) from span[0] to span[1]."""
    return numbers * (span[1] - span[0]) + span[0]
