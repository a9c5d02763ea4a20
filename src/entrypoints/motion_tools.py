"""Composition of ``unilab motion``: a robot, its kinematics, and the files on both sides of a tool."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from application.motion.builtin import PREFIX, RATE, builtin_name
from application.motion.check import MotionReport, check_motion
from application.motion.convert import ConvertOptions, convert_arrays, convert_table
from application.motion.load import read_source
from application.motion.ports import Kinematics, MotionArrays, MotionFiles
from application.motion.schema import ReadMotion, arrays_of
from application.motion.trajectory import robot_of
from application.robots import g1, go2
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, unknown_name
from domain.physics import EntityIndex, ModelIndex
from entrypoints.container import Container

TIMESTEP = 1.0 / 150.0
"""s; kinematics does not depend on it."""


def _g1() -> SceneModel:
    return g1.build(timestep=TIMESTEP)


def _go2() -> SceneModel:
    return go2.build(timestep=TIMESTEP)


ROBOTS: Mapping[str, Callable[[], SceneModel]] = MappingProxyType({"g1": _g1, "go2": _go2})
"""Robots that a motion may be for."""


@dataclass(frozen=True, kw_only=True)
class MotionDesk:
    """What every tool needs."""

    index: ModelIndex
    robot: EntityIndex
    kinematics: Kinematics
    files: MotionFiles


def motion_desk(container: Container, robot: str) -> MotionDesk:
    """Return the tools of a robot. Raises ConfigurationError for an unknown one."""
    if robot not in ROBOTS:
        raise ConfigurationError(unknown_name("robot", robot, ROBOTS))
    scene = ROBOTS[robot]()
    return MotionDesk(
        index=scene.index,
        robot=robot_of(scene.index),
        kinematics=container.kinematics(scene),
        files=container.motion_files(),
    )


def read(desk: MotionDesk, source: str) -> ReadMotion:
    """Return the clip of a file or ``builtin:NAME``. Raises DataError where it is missing or of another form."""
    return read_source(source, desk.index, desk.kinematics, desk.files)


def check(desk: MotionDesk, source: str, control_rate: float) -> MotionReport:
    """Return everything that is wrong with a motion. Raises DataError where it is missing or of another form."""
    if not 0.0 < control_rate < float("inf"):
        raise ConfigurationError(f"--control-rate is {control_rate:g}: give a number of Hz above 0")
    return check_motion(read(desk, source), desk.index, desk.kinematics, control_rate)


def convert(desk: MotionDesk, source: str, out: Path, options: ConvertOptions, *, force: bool) -> ReadMotion:
    """Write a whole motion file of another one, or of a table, and return what it holds.

    Raises:
        ConfigurationError: An option that does not go with the file.
        DataError: The file is missing or cannot be understood, or ``out`` exists or cannot be written.
    """
    desk.files.check_target(out, force=force)
    if builtin_name(source) is None and Path(source).suffix.lower() != ".npz":
        made = convert_table(desk.files.read_table(Path(source)), desk.index, desk.kinematics, options)
    else:
        made = convert_arrays(_arrays(desk, source, options), desk.index, desk.kinematics, options)
    desk.files.write(made.clip, out, force=force)
    return made


def check_made(desk: MotionDesk, made: ReadMotion) -> MotionReport:
    """Return everything that is wrong with a motion that was made, at a rate of control that is its own."""
    return check_motion(ReadMotion(clip=made.clip), desk.index, desk.kinematics, made.clip.fps)


def make(desk: MotionDesk, name: str, out: Path, fps: float, *, force: bool) -> ReadMotion:
    """Write a built-in motion and return it.

    Raises:
        ConfigurationError: The rate is not above 0, or the robot is no G1.
        DataError: There is no such motion, or ``out`` exists or cannot be written.
    """
    options = ConvertOptions(fps=fps)
    desk.files.check_target(out, force=force)
    source = PREFIX + name.removeprefix(PREFIX)
    made = read_source(source, desk.index, desk.kinematics, desk.files, options.fps)
    desk.files.write(made.clip, out, force=force)
    return made


def _arrays(desk: MotionDesk, source: str, options: ConvertOptions) -> MotionArrays:
    if builtin_name(source) is None:
        return desk.files.read(Path(source))
    clip = read_source(source, desk.index, desk.kinematics, desk.files, options.fps_in or RATE).clip
    arrays, texts = arrays_of(clip)
    return MotionArrays(
        source=source, arrays={key: value.double() for key, value in arrays.items()}, texts=texts, others={}
    )
