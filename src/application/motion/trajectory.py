"""Root and joints over time: what a clip is made from, and how its bodies and velocities follow from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from application.motion.ports import Kinematics
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex, ModelIndex
from domain.rotations import angular_velocity, quat_slerp

ROBOT = "robot"
MOST_FRAMES = 1_000_000
"""Of a clip that is made; more is a slip in a rate."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """Poses at a fixed rate; float64, joints in the robot's order, world frame with z up and the floor at 0."""

    fps: float
    root_pos: Tensor
    """(frames, 3) m."""
    root_quat: Tensor
    """(frames, 4), w first, unit norm."""
    joint_pos: Tensor
    """(frames, joints) rad."""

    @property
    def qpos(self) -> Tensor:
        """(frames, 7 + joints), as a robot with a free root has it."""
        return torch.cat((self.root_pos, self.root_quat, self.joint_pos), dim=1)


def robot_of(index: ModelIndex) -> EntityIndex:
    """Return the robot that follows motions. Raises ConfigurationError for one whose base is fixed."""
    robot = index.entities[ROBOT]
    if robot.root_qpos_adr != 0 or robot.qpos_adr != 7 or index.nq != 7 + len(robot.joints):
        raise ConfigurationError("motions move a robot with a free root and nothing else, which this scene has not")
    return robot


def trajectory_of(clip: MotionClip, robot: EntityIndex) -> Trajectory:
    """Return root and joints of a clip that has the robot's joints in its order, and its root body."""
    root = clip.bodies.index(robot.root_body)
    quat = clip.body_quat[:, root].double()
    return Trajectory(
        fps=clip.fps,
        root_pos=clip.body_pos[:, root].double(),
        root_quat=quat / torch.linalg.vector_norm(quat, dim=-1, keepdim=True),
        joint_pos=clip.joint_pos.double(),
    )


def clip_of(path: Trajectory, robot: EntityIndex, kinematics: Kinematics, source: str) -> MotionClip:
    """Return the clip of a trajectory: bodies by forward kinematics, velocities by central differences.

    Raises:
        DataError: A value is not finite, or there are fewer than two frames.
    """
    if len(path.joint_pos) < 2:
        raise DataError(f"{source}: {len(path.joint_pos)} frames: a clip needs at least 2")
    poses = kinematics.poses(path.qpos)
    quat = continuous(poses.body_quat)
    return MotionClip(
        source=source,
        fps=path.fps,
        joints=robot.joints,
        bodies=robot.bodies,
        joint_pos=path.joint_pos.float(),
        joint_vel=rates(path.joint_pos, path.fps).float(),
        body_pos=poses.body_pos.float(),
        body_quat=quat.float(),
        body_lin_vel=rates(poses.body_pos, path.fps).float(),
        body_ang_vel=angular_velocity(quat, 1.0 / path.fps).float(),
    )


def rates(values: Tensor, fps: float) -> Tensor:
    """Return time derivatives (frames, ...) by central differences, one-sided at the ends."""
    (derivative,) = torch.gradient(values, spacing=1.0 / fps, dim=0)
    return derivative


def continuous(quats: Tensor) -> Tensor:
    """Return (frames, ..., 4) with signs such that no quaternion jumps to its negative."""
    jumps = (quats[1:] * quats[:-1]).sum(dim=-1, keepdim=True) < 0.0
    signs = torch.cumprod(torch.where(jumps, -1.0, 1.0), dim=0)
    return torch.cat((quats[:1], quats[1:] * signs.to(quats.dtype)))


def resample(path: Trajectory, fps: float) -> Trajectory:
    """Return the trajectory at another rate over the same time: positions linear, the root's rotation spherical.

    Frames that fall on old ones are theirs; the last one is the last that lies inside. Raises DataError for too many.
    """
    if path.fps == fps:
        return path
    last = len(path.joint_pos) - 1
    # A duration that is a whole number of new frames must not lose its last one to rounding.
    check_length(last / path.fps, fps)
    frames = int(last / path.fps * fps + 1e-6) + 1
    at = torch.arange(frames, dtype=torch.float64) * (path.fps / fps)
    before = at.floor().clamp(0, max(last - 1, 0)).long()
    after = (before + 1).clamp(max=last)
    share = (at - before).clamp(0.0, 1.0)
    quats = continuous(path.root_quat)
    return Trajectory(
        fps=fps,
        root_pos=torch.lerp(path.root_pos[before], path.root_pos[after], share[:, None]),
        root_quat=quat_slerp(quats[before], quats[after], share),
        joint_pos=torch.lerp(path.joint_pos[before], path.joint_pos[after], share[:, None]),
    )


def check_length(seconds: float, fps: float) -> None:
    """Raise DataError for a clip of more frames than any is worth."""
    if not seconds * fps < MOST_FRAMES:
        raise DataError(
            f"{seconds:g} s at {fps:g} fps are {seconds * fps:.3g} frames, more than {MOST_FRAMES}: check both rates"
        )
