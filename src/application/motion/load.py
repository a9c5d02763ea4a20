"""Loads the reference motions of a run and refuses those from which nothing could be learnt."""

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from application.motion.agreement import ALL_IDENTITY, compare, diagnose, identity_only, undecidable_order
from application.motion.builtin import PLANS, PREFIX, RATE, builtin_name, make_clip
from application.motion.findings import convert_command
from application.motion.ports import Kinematics, MotionFiles
from application.motion.rates import body_rate_problem, rate_problem
from application.motion.schema import ReadMotion, read_motion
from application.motion.terminations import ends_of, height_problem
from application.motion.trajectory import robot_of, trajectory_of
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from domain.motion.command import FPS_TOLERANCE
from domain.physics import ModelIndex

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
        tell: Told what is worth knowing of a clip and no error.
        height_limit: How far the task lets the robot's anchor be from its height, m.

    Raises:
        DataError: A file is missing, damaged or of another form; its bodies are not where its joints put them; it has
            another rate than control; its velocities are another motion's; its robot never touches the floor. One
            line, with what mends it.
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
    if path.suffix == ".csv":
        raise DataError(
            f"{source} is a table: make a motion file of it with 'unilab motion convert {source} --out NEW.npz'"
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
    read = read_source(source, index, kinematics, tools.files, float(nearest))
    clip, robot = read.clip, robot_of(index)
    if builtin_name(source) is not None:
        return clip
    found = compare(clip, robot, kinematics, MOST_FRAMES)
    wrong = diagnose(found, clip, robot, kinematics)
    if wrong is not None:
        poses = kinematics.poses(trajectory_of(clip, robot).qpos)
        ends = [f"'{end.term}' from frame {end.frame}" for end in ends_of(clip, robot, kinematics, poses)]
        certain = f" (episodes end by {', '.join(ends)})" if ends else ""
        raise _refusal(source, f"{wrong.what}{certain}", wrong.options)
    slow = rate_problem(clip) or body_rate_problem(clip)
    if slow is not None:
        doubt = ALL_IDENTITY if identity_only(clip) else ""
        raise _refusal(source, f"{slow.what}{doubt}", slow.options)
    if abs(clip.fps / rate - 1.0) > FPS_TOLERANCE:
        what = f"its rate is {clip.fps:g} fps and control runs at {rate:g} Hz, one frame a step"
        raise _refusal(source, what, f"--fps {rate:g}")
    far = height_problem(clip, found.poses.clearance, needs.height_limit)
    if far is not None:
        raise _refusal(source, far.what, far.options)
    undecided = undecidable_order(clip, robot, kinematics, MOST_FRAMES)
    for note in (*read.notes, *(() if undecided is None else (undecided,))):
        tell(f"{source}: {note}")
    return clip


def _refusal(source: str, what: str, options: str | None) -> DataError:
    return DataError(
        f"{source}: {what}: '{convert_command(source, options or '')}'; 'unilab motion check {source}' says more"
    )
