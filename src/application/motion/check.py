"""What is wrong with a reference motion: everything that can be told without a simulation, with what mends it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from application.motion.agreement import Agreement, Diagnosis, compare, diagnose, undecidable_order
from application.motion.doubts import doubts_of, end_findings, sign_changes
from application.motion.findings import Finding
from application.motion.ports import Kinematics
from application.motion.rates import body_rate_problem, control_rate_problem, rate_problem
from application.motion.schema import SAME_POSITION, SAME_ROTATION, ReadMotion
from application.motion.terminations import End, ends_of
from application.motion.trajectory import robot_of
from application.motion.units import degrees_problem
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex, ModelIndex


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
    wrong, degrees = diagnose(found, clip, robot, kinematics), degrees_problem(clip.joint_pos, robot)
    if degrees is not None and (wrong is None or wrong.options != degrees.options):
        # Nothing else can be told from such poses.
        findings = [degrees]
    else:
        findings = [*_findings(read, robot, found, wrong, control_rate), *end_findings(ends)]
    return MotionReport(
        clip=clip,
        bodies=tuple(_body_errors(found)),
        clearance=(float(found.poses.clearance.min()), float(found.poses.clearance.max())),
        ends=ends,
        findings=_possible(findings),
        notes=(*notes, doubt) if doubt is not None else tuple(notes),
    )


def _findings(
    read: ReadMotion, robot: EntityIndex, found: Agreement, wrong: Diagnosis | None, control_rate: float
) -> Iterator[Finding]:
    clip = read.clip
    if wrong is not None:
        yield wrong
    yield from sign_changes(clip)
    if wrong is None or not wrong.decided:
        # In another unit or order these would only say the same again, or what is not so.
        yield from _rates(clip, control_rate)
        yield from _body_rates(clip)
        yield from doubts_of(read, robot, found)


def _possible(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings without commands where one has to be mended first that a conversion would hide."""
    if all(finding.mend is None for finding in findings):
        return tuple(findings)
    return tuple(replace(finding, options=None) for finding in findings)


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


def _rates(clip: MotionClip, control_rate: float) -> Iterator[Finding]:
    wrong = rate_problem(clip)
    if wrong is not None:
        yield wrong
    elif (other := control_rate_problem(clip, control_rate)) is not None:
        yield other


def _body_rates(clip: MotionClip) -> Iterator[Finding]:
    wrong = body_rate_problem(clip)
    if wrong is not None and rate_problem(clip) is None:
        yield wrong
