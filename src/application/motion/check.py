"""What is wrong with a reference motion: everything that can be told without a simulation, with what mends it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from application.motion.agreement import Agreement, compare, diagnose, undecidable_order
from application.motion.findings import Finding
from application.motion.ports import Kinematics
from application.motion.rates import body_rate_problem, rate_problem
from application.motion.schema import SAME_POSITION, SAME_ROTATION, ReadMotion
from application.motion.terminations import End, ends_of, height_problem
from application.motion.trajectory import robot_of
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex, ModelIndex

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


@dataclass(frozen=True, kw_only=True)
class BodyError:
    """The largest distance and turn of one body against forward kinematics, and the frames of both."""

    body: str
    distance: float
    distance_frame: int
    angle: float
    angle_frame: int

    @property
    def off(self) -> bool:
        """Whether the body is clearly somewhere else, or turned."""
        return self.distance > SAME_POSITION or self.angle > SAME_ROTATION


@dataclass(frozen=True, kw_only=True)
class MotionReport:
    """What a check has found."""

    clip: MotionClip
    bodies: tuple[BodyError, ...]
    clearance: tuple[float, float]
    """m: least and greatest height of the robot's lowest point."""
    ends: tuple[End, ...]
    """Terminations that are certain, by frame."""
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def check_motion(read: ReadMotion, index: ModelIndex, kinematics: Kinematics, control_rate: float) -> MotionReport:
    """Return everything that is wrong with a clip for the robot of ``index`` and a rate of control in Hz."""
    clip, robot = read.clip, robot_of(index)
    found = compare(clip, robot, kinematics)
    ends = tuple(ends_of(clip, robot, kinematics, found.poses))
    notes = list(read.notes)
    doubt = undecidable_order(clip, robot, kinematics, clip.frames)
    wrong = diagnose(found, clip, robot, kinematics)
    findings = [] if wrong is None else [Finding(what=wrong.what, options=wrong.options)]
    findings += _rotations(clip)
    if wrong is None or not wrong.decided:
        # In another unit or order these would only say the same again, or what is not so.
        findings += [*_rates(clip, control_rate), *_body_rates(clip), *_limits(clip, robot), *_speeds(clip, robot)]
        findings += _ground(clip, found.poses.clearance)
    findings += _ends(ends)
    return MotionReport(
        clip=clip,
        bodies=tuple(_body_errors(found)),
        clearance=(float(found.poses.clearance.min()), float(found.poses.clearance.max())),
        ends=ends,
        findings=tuple(findings),
        notes=(*notes, doubt) if doubt is not None else tuple(notes),
    )


def _body_errors(found: Agreement) -> Iterator[BodyError]:
    distance, at = found.distance.max(dim=0)
    angle, turned_at = found.angle.max(dim=0)
    for body, name in enumerate(found.bodies):
        yield BodyError(
            body=name,
            distance=float(distance[body]),
            distance_frame=int(found.frames[at[body]]),
            angle=float(angle[body]),
            angle_frame=int(found.frames[turned_at[body]]),
        )


def _rotations(clip: MotionClip) -> Iterator[Finding]:
    jumps = (clip.body_quat[1:] * clip.body_quat[:-1]).sum(dim=-1) < 0.0
    if bool(jumps.any()):
        body = int(jumps.any(dim=0).int().argmax())
        frame = int(jumps[:, body].int().argmax()) + 1
        yield Finding(
            what=f"body_quat_w changes its sign {int(jumps.sum())} times, the first is '{clip.bodies[body]}' at frame "
            f"{frame}: the same rotation, but a jump for what interpolates or subtracts",
            options="",
        )


def _rates(clip: MotionClip, control_rate: float) -> Iterator[Finding]:
    wrong = rate_problem(clip)
    if wrong is not None:
        yield wrong
    elif abs(clip.fps / control_rate - 1.0) > 1e-3:
        yield Finding(
            what=f"its rate is {clip.fps:g} fps and control runs at {control_rate:g} Hz, one frame a step",
            options=f"--fps {control_rate:g}",
        )


def _body_rates(clip: MotionClip) -> Iterator[Finding]:
    wrong = body_rate_problem(clip)
    if wrong is not None and rate_problem(clip) is None:
        yield wrong


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


def _ground(clip: MotionClip, clearance: Tensor) -> Iterator[Finding]:
    lowest, frame = float(clearance.min()), int(clearance.argmin())
    hopeless = height_problem(clip, clearance)
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


def _ends(ends: tuple[End, ...]) -> Iterator[Finding]:
    for end in ends:
        yield Finding(
            what=f"termination '{end.term}' ends every episode that reaches frame {end.frame}: {end.why} there"
        )
