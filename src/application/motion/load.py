"""Loads the reference motions of a run and refuses those from which nothing could be learnt."""

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from application.motion.agreement import ALL_IDENTITY, Agreement, compare, diagnose, identity_only, undecidable_order
from application.motion.builtin import PLANS, PREFIX, RATE, builtin_name, make_clip
from application.motion.doubts import doubts_of, end_findings, sign_changes
from application.motion.findings import Finding, convert_command, line_of
from application.motion.ports import Kinematics, MotionFiles
from application.motion.rates import body_rate_problem, control_rate_problem, rate_problem
from application.motion.schema import ReadMotion, read_motion
from application.motion.terminations import End, ends_of, height_problem
from application.motion.tilt import tilt_problem
from application.motion.trajectory import robot_of, trajectory_of
from application.motion.units import degrees_problem, scale_problem
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import WIDTHS, MotionClip
from domain.motion.command import FPS_TOLERANCE
from domain.physics import EntityIndex, ModelIndex

MOST_FRAMES = 1000
"""Frames of a clip that are compared before training; 'unilab motion check' looks at all."""


@dataclass(frozen=True, kw_only=True)
class MotionTools:
    """What stands outside."""

    files: MotionFiles
    kinematics: Callable[[SceneModel], Kinematics]
    """Of the robot in a scene."""


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """What a task asks of its clips."""

    step_dt: float
    height_limit: float


def load_clips(
    sources: Sequence[str],
    scene: SceneModel,
    *,
    step_dt: float,
    tools: MotionTools,
    tell: Callable[[str], None] = lambda line: None,
    height_limit: float = math.inf,
) -> list[MotionClip]:
    """Return the clips of ``sources``, with the joints of the scene's robot in its order.

    Args:
        sources: Paths of motion files, and ``builtin:NAME``.
        scene: Holds the robot.
        step_dt: Time between two control steps, s: a clip has one frame for each.
        tools: Files and kinematics.
        tell: Told what is worth knowing of a clip and no error, and all that a check finds besides.
        height_limit: How far the task lets the robot's anchor be from its height, m.

    Raises:
        DataError: A file is missing, damaged or of another form; its bodies are not where its joints put them; it has
            another rate than control; its velocities are another motion's; its robot never touches the floor; an
            episode that starts at frame 0 ends there. One line, with what mends it.
        ConfigurationError: The robot's base is fixed, a built-in motion is for another robot, or one is named twice.
    """
    if not sources:
        return []
    _check_each_once(sources)
    kinematics = tools.kinematics(scene)
    needs = _Needs(step_dt=step_dt, height_limit=height_limit)
    return [_load(source, scene.index, kinematics, needs, tools, tell) for source in sources]


def read_source(
    source: str, index: ModelIndex, kinematics: Kinematics, files: MotionFiles, fps: float = RATE
) -> ReadMotion:
    """Return the clip of a file or ``builtin:NAME``; ``fps`` is the rate of a built-in one.

    Raises:
        DataError: There is no such motion, or it is damaged or of another form.
        ConfigurationError: The robot's base is fixed, or a built-in motion is for another robot.
    """
    robot = robot_of(index)
    name = builtin_name(source)
    if name is not None:
        return ReadMotion(clip=make_clip(name, index, kinematics, fps))
    path = Path(source)
    if path.suffix.lower() == ".csv":
        command = convert_command(source, "--fps-in N --quat-order ORDER")
        raise DataError(
            f"{source} is a table: make a motion file of it with '{command}', its rows a second and wxyz or xyzw"
        )
    try:
        return read_motion(files.read(path), robot)
    except DataError as error:
        known = {**{name: name for name in PLANS}, **{f"{PREFIX}{name}": name for name in PLANS}}
        near = difflib.get_close_matches(path.name, known, n=1)
        if near and _missing(path):
            raise DataError(f"{error}; did you mean '{PREFIX}{known[near[0]]}'?") from error
        raise


def absolute_sources(sources: Sequence[str]) -> tuple[str, ...]:
    """Return sources that mean the same from any folder. Raises DataError for the home of a user whom nobody knows."""
    return tuple(source if source.startswith(PREFIX) else str(_absolute(source)) for source in sources)


def _absolute(source: str) -> Path:
    try:
        return Path(source).expanduser().absolute()
    except RuntimeError as error:
        raise DataError(f"motion file {source} does not exist: there is no such home folder") from error


def _missing(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:
        return False


def _check_each_once(sources: Sequence[str]) -> None:
    """Raise ConfigurationError where two sources are one motion."""
    seen: set[str] = set()
    for source in sources:
        meant = source if source.startswith(PREFIX) else str(_resolved(Path(source)))
        if meant in seen:
            raise ConfigurationError(f"the motion {source} is named twice: name each once")
        seen.add(meant)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        # A link that leads nowhere; reading it will say so.
        return path


def _load(
    source: str,
    index: ModelIndex,
    kinematics: Kinematics,
    needs: _Needs,
    tools: MotionTools,
    tell: Callable[[str], None],
) -> MotionClip:
    rate = 1.0 / needs.step_dt
    nearest = round(rate) if abs(rate - round(rate)) < FPS_TOLERANCE * rate else rate
    try:
        read = read_source(source, index, kinematics, tools.files, float(nearest))
    except DataError as error:
        if builtin_name(source) is None and _missing(Path(source)):
            raise DataError(f"{error}; if it has moved, --motion NEWPATH gives its new place") from error
        raise
    clip, robot = read.clip, robot_of(index)
    if builtin_name(source) is not None:
        return clip
    found = compare(clip, robot, kinematics, MOST_FRAMES)
    refused = _unfit(read, robot, kinematics, found) or control_rate_problem(clip, rate)
    far = height_problem(clip, found.poses.clearance, needs.height_limit)
    if refused is None and far is not None:
        refused = tilt_problem(clip, robot, read.quat_order) or scale_problem(found, robot) or far
    if refused is not None:
        raise _refusal(source, refused)
    ends = _certain_ends(clip, robot, kinematics, found, needs.height_limit)
    at_once = [finding.what for finding in end_findings([end for end in ends if end.frame == 0])]
    if at_once:
        raise _refusal(source, Finding(what="; ".join(at_once), mend="correct its first frames or cut them off"))
    undecided = undecidable_order(clip, robot, kinematics, MOST_FRAMES)
    doubts = [*sign_changes(clip), *doubts_of(read, robot, found, needs.height_limit), *end_findings(ends)]
    for note in (
        *read.notes,
        *([] if undecided is None else [undecided]),
        *(line_of(doubt, source) for doubt in doubts),
    ):
        tell(f"{source}: {note}")
    return clip


def _unfit(read: ReadMotion, robot: EntityIndex, kinematics: Kinematics, found: Agreement) -> Finding | None:
    """Return why a clip cannot be its robot's motion; None where it can."""
    clip = read.clip
    wrong, degrees = diagnose(found, clip, robot, kinematics), degrees_problem(clip.joint_pos, robot)
    if degrees is not None and (wrong is None or wrong.options != degrees.options):
        return degrees
    if wrong is not None:
        poses = kinematics.poses(trajectory_of(clip, robot).qpos)
        ends = [f"'{end.term}' from frame {end.frame}" for end in ends_of(clip, robot, kinematics, poses)]
        certain = f" (episodes end by {', '.join(ends)})" if ends else ""
        return replace(wrong, what=f"{wrong.what}{certain}")
    slow = rate_problem(clip) or body_rate_problem(clip)
    if slow is not None and identity_only(clip):
        return replace(slow, what=f"{slow.what}{ALL_IDENTITY}")
    return slow


def _certain_ends(
    clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, found: Agreement, limit: float
) -> list[End]:
    """Return the terminations that are certain within the first frames of a clip."""
    poses = found.poses
    if clip.frames > MOST_FRAMES:
        # A fall shows only between frames that follow each other.
        clip = replace(clip, **{name: getattr(clip, name)[:MOST_FRAMES] for name in WIDTHS})
        poses = kinematics.poses(trajectory_of(clip, robot).qpos)
    return ends_of(clip, robot, kinematics, poses, limit)


def _refusal(source: str, finding: Finding) -> DataError:
    return DataError(f"{source}: {line_of(finding, source)}; 'unilab motion check {source}' says more")
