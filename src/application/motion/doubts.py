"""What a clip that fits its robot may still be wrong in: ranges, speeds, height, tilt, and ends of episodes."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from application.motion.agreement import Agreement
from application.motion.findings import Finding
from application.motion.schema import ReadMotion
from application.motion.terminations import HEIGHT, End, height_problem
from application.motion.tilt import tilt_problem
from application.motion.units import scale_problem
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex

IN_FLOOR = 0.02
"""m: deeper, and the floor pushes the robot about."""
ABOVE_FLOOR = 0.02
"""m: a robot that is never lower falls first of all."""
OVER_LIMIT = 0.01
"""rad."""
FAST_JOINT = 30.0
"""rad/s: what the fastest joints of a robot of this size reach."""
FAST_ROOT = 10.0
"""m/s."""


def doubts_of(read: ReadMotion, robot: EntityIndex, found: Agreement, limit: float = HEIGHT) -> Iterator[Finding]:
    """Yield what is doubtful in a clip that nothing else is wrong with.

    Args:
        read: The clip.
        robot: Its names and ranges.
        found: Poses of the frames that are looked at.
        limit: How far ``anchor_pos`` lets the anchor be from its height, m.
    """
    yield from _limits(read.clip, robot)
    yield from _speeds(read.clip, robot)
    tilt = tilt_problem(read.clip, robot, read.quat_order)
    if tilt is not None:
        # Where its lowest point is says nothing yet.
        yield tilt
    else:
        yield from _ground(read.clip, robot, found, limit)


def sign_changes(clip: MotionClip) -> Iterator[Finding]:
    """Yield that quaternions jump to their negatives."""
    jumps = (clip.body_quat[1:] * clip.body_quat[:-1]).sum(dim=-1) < 0.0
    if bool(jumps.any()):
        body = int(jumps.any(dim=0).int().argmax())
        frame = int(jumps[:, body].int().argmax()) + 1
        yield Finding(
            what=f"body_quat_w changes its sign {int(jumps.sum())} times, the first is '{clip.bodies[body]}' at frame "
            f"{frame}: the same rotation, but a jump for what interpolates or subtracts",
            options="",
        )


def end_findings(ends: Sequence[End]) -> Iterator[Finding]:
    """Yield the terminations that are certain."""
    for end in ends:
        yield Finding(
            what=f"termination '{end.term}' ends every episode that reaches frame {end.frame}: {end.why} there"
        )


def _limits(clip: MotionClip, robot: EntityIndex) -> Iterator[Finding]:
    low, high = torch.tensor(robot.joint_range).unbind(dim=1)
    over = torch.maximum(low - clip.joint_pos, clip.joint_pos - high)
    worst, frames = over.max(dim=0)
    outside = [joint for joint in range(len(robot.joints)) if float(worst[joint]) > OVER_LIMIT]
    if outside:
        first = max(outside, key=lambda joint: float(worst[joint]))
        yield Finding(
            what=f"{len(outside)} of {len(robot.joints)} joints leave their ranges, the furthest is "
            f"'{robot.joints[first]}', by {float(worst[first]):.3f} rad at frame {int(frames[first])}",
        )


def _speeds(clip: MotionClip, robot: EntityIndex) -> Iterator[Finding]:
    root = clip.body_lin_vel[:, clip.bodies.index(robot.root_body)]
    for what, speed, most, unit in (
        ("a joint moves", clip.joint_vel.abs(), FAST_JOINT, "rad/s"),
        ("the root moves", torch.linalg.vector_norm(root, dim=-1, keepdim=True), FAST_ROOT, "m/s"),
    ):
        if float(speed.max()) > most:
            frame, column = divmod(int(speed.argmax()), speed.shape[1])
            name = f" ('{robot.joints[column]}')" if speed.shape[1] > 1 else ""
            yield Finding(what=f"{what} at {float(speed.max()):.1f} {unit} at frame {frame}{name}, above {most:g}")


def _ground(clip: MotionClip, robot: EntityIndex, found: Agreement, limit: float) -> Iterator[Finding]:
    clearance: Tensor = found.poses.clearance
    lowest, frame = float(clearance.min()), int(found.frames[int(clearance.argmin())])
    hopeless = scale_problem(found, robot)
    if hopeless is None and math.isfinite(limit):
        hopeless = height_problem(clip, clearance, limit)
    if hopeless is not None:
        yield hopeless
    elif lowest > ABOVE_FLOOR:
        yield Finding(
            what=f"the robot is never less than {lowest:.3f} m above the floor: it falls when an episode starts",
            options=f"--root-height-offset {-lowest:.3f}",
        )
    elif lowest < -IN_FLOOR:
        yield Finding(
            what=f"the robot is {-lowest:.3f} m inside the floor at frame {frame}",
            options=f"--root-height-offset {-lowest:.3f}",
        )
