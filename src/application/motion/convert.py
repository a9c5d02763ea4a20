"""Makes a whole motion file of root and joints: from a table, or from a motion file of another form, rate or unit.

Only root and joints are taken over. Bodies follow by forward kinematics and velocities by central differences, so they
always belong together.

Source:
    Public unilab 1.5.2, ``csv_to_npz``: positions linear, the root's rotation spherical, signs continuous.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from application.motion.agreement import compare, diagnose
from application.motion.array_parts import root_and_joints
from application.motion.ports import Kinematics, MotionArrays, MotionTable
from application.motion.rates import body_rate_problem, rate_problem
from application.motion.schema import KEYS, ReadMotion, fps_of, read_motion
from application.motion.table_columns import columns_of
from application.motion.tilt import order_note, tilt_problem
from application.motion.trajectory import Trajectory, clip_of, continuous, resample, robot_of
from application.motion.units import degrees_note, degrees_problem
from domain.errors import ConfigurationError, DataError
from domain.physics import EntityIndex, ModelIndex

MOST_FRAMES = 1000
"""Frames of a file that are compared with what is made of it."""
UNIT_NORM_ERROR = 0.05
"""How far a quaternion's norm may be from 1 to be set right."""


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """What the user knows of a file and wants of the new one."""

    fps: float = 50.0
    """Rate of the new file."""
    fps_in: float | None = None
    """Rate of the old one, instead of what it says."""
    quat_order: str | None = None
    """``wxyz`` or ``xyzw``."""
    scale: float = 1.0
    """Factor on positions."""
    root_height_offset: float = 0.0
    """m, added to the root's height after scaling."""
    degrees: bool = False
    """Whether joints are in degrees."""
    drop_free_joint: bool = False
    """Whether the first 7 columns of ``joint_pos`` are the root's pose."""
    root_body: int | None = None
    """Which place on the body axis the root has."""

    def __post_init__(self) -> None:
        for name, value in (("--fps", self.fps), ("--fps-in", self.fps_in), ("--scale", self.scale)):
            if value is not None and not 0.0 < value < float("inf"):
                raise ConfigurationError(f"{name} is {value:g}: give a number above 0")
        if self.quat_order not in (None, "wxyz", "xyzw"):
            raise ConfigurationError(f"--quat-order is '{self.quat_order}': give wxyz or xyzw")
        if not abs(self.root_height_offset) < float("inf"):
            raise ConfigurationError(f"--root-height-offset is {self.root_height_offset:g}: give a finite number")


@dataclass(frozen=True, kw_only=True)
class RawMotion:
    """Root and joints as a file has them; float64, joints in the robot's order."""

    source: str
    fps: float
    root_pos: Tensor
    """(frames, 3)."""
    root_quat: Tensor
    """(frames, 4), in the order that ``quat_order`` says."""
    joint_pos: Tensor
    """(frames, joints)."""
    quat_order: str
    notes: tuple[str, ...] = ()


def convert_table(table: MotionTable, index: ModelIndex, kinematics: Kinematics, options: ConvertOptions) -> ReadMotion:
    """Return the clip of a table with one frame a row.

    Raises:
        DataError: Columns are missing, or the rate or the order of the quaternion is not known.
    """
    robot = robot_of(index)
    for given, name in ((options.drop_free_joint, "--drop-free-joint"), (options.root_body is not None, "--root-body")):
        if given:
            raise ConfigurationError(f"{name} is for motion files, and {table.source} is a table: leave it out")
    if options.fps_in is None:
        raise DataError(f"{table.source}: a table has no rate: give --fps-in N, the rows a second")
    columns = columns_of(table, robot, options.quat_order)
    raw = RawMotion(
        source=table.source,
        fps=options.fps_in,
        root_pos=columns.root_pos,
        root_quat=columns.root_quat,
        joint_pos=columns.joint_pos,
        quat_order=columns.quat_order,
        notes=columns.notes,
    )
    return _convert(raw, robot, kinematics, options)


def convert_arrays(
    file: MotionArrays, index: ModelIndex, kinematics: Kinematics, options: ConvertOptions
) -> ReadMotion:
    """Return the clip of a motion file's root and joints.

    Raises:
        DataError: The file has no root or no joints, or what it holds of bodies shows that an option is needed: names
            it.
    """
    robot = robot_of(index)
    parts = root_and_joints(file, robot, free_joint=options.drop_free_joint, root_body=options.root_body)
    raw = RawMotion(
        source=file.source,
        fps=fps_of(file) if options.fps_in is None else options.fps_in,
        root_pos=parts.root_pos,
        root_quat=parts.root_quat,
        joint_pos=parts.joint_pos,
        quat_order=_order(file, parts.quat_order, options),
        notes=(*parts.notes, *_stated_rate(file, options), *_moved(file, robot, kinematics, options)),
    )
    return _convert(raw, robot, kinematics, options)


def _order(file: MotionArrays, known: str | None, options: ConvertOptions) -> str:
    """Return the order of the root's quaternion: as told, as the file's form has it, or not at all."""
    if options.quat_order is not None:
        return options.quat_order
    if known is None:
        raise DataError(f"{file.source}: nothing says how its rotations are written: give --quat-order wxyz or xyzw")
    return known


def _moved(file: MotionArrays, robot: EntityIndex, kinematics: Kinematics, options: ConvertOptions) -> tuple[str, ...]:
    """Return what conversion will change in the bodies; refuse what an option has to mend."""
    try:
        read = read_motion(file, robot)
    except DataError:
        # Of another form, which is why it is converted.
        return _unlike_lengths(file)
    clip = read.clip
    wrong = diagnose(compare(clip, robot, kinematics, MOST_FRAMES), clip, robot, kinematics)
    tilt = tilt_problem(clip, robot, read.quat_order)
    if wrong is None and options.quat_order == "xyzw" and (tilt is None or tilt.options is None):
        raise DataError(f"{file.source}: forward kinematics fits every body with w first: leave --quat-order out")
    told = options.quat_order is not None or options.scale != 1.0 or options.degrees
    if wrong is not None and wrong.decided and not told:
        raise DataError(f"{file.source}: {wrong.what}: give {wrong.options}")
    if wrong is not None and not wrong.decided:
        return (f"{wrong.what}; all bodies are computed anew from root and joints",)
    return _other_velocities(read, options)


def _other_velocities(read: ReadMotion, options: ConvertOptions) -> tuple[str, ...]:
    """Return where a file's velocities are not those of its positions, which alone are taken over."""
    clip = read.clip if options.fps_in is None else replace(read.clip, fps=options.fps_in)
    # What an option mends in positions it may have to mend in velocities as well, or not.
    forms = [clip]
    if options.degrees:
        forms.append(replace(clip, joint_pos=torch.deg2rad(clip.joint_pos)))
    if options.scale != 1.0:
        forms += [replace(form, body_pos=form.body_pos * options.scale) for form in forms]
    if options.quat_order not in (None, read.quat_order):
        places = [3, 0, 1, 2] if options.quat_order == "xyzw" else [1, 2, 3, 0]
        forms = [replace(form, body_quat=form.body_quat[..., places]) for form in forms]
    problems = [rate_problem(form) or body_rate_problem(form) for form in forms]
    found = [problem for problem in problems if problem is not None]
    if len(found) < len(forms):
        return ()
    hint = f" ({found[0].options} would follow them)" if found[0].options else ""
    return (f"{found[0].what}{hint}; velocities are computed anew from positions and rate",)


def _unlike_lengths(file: MotionArrays) -> tuple[str, ...]:
    """Return that arrays of a file have not the same frames, though those that are taken over have."""
    lengths = {key: len(file.arrays[key]) for key in KEYS if key in file.arrays and file.arrays[key].ndim}
    if len(set(lengths.values())) < 2:
        return ()
    shown = ", ".join(f"{key} {length}" for key, length in lengths.items())
    return (f"its arrays have not the same frames ({shown}); bodies and velocities are computed anew",)


def _stated_rate(file: MotionArrays, options: ConvertOptions) -> tuple[str, ...]:
    """Return that the rate a file states is replaced by another one."""
    value = file.arrays.get("fps")
    if options.fps_in is None or value is None or value.numel() != 1 or float(value.reshape(())) == options.fps_in:
        return ()
    return (f"--fps-in {options.fps_in:g} replaces the rate that the file states, {float(value.reshape(())):g} fps",)


def _convert(raw: RawMotion, robot: EntityIndex, kinematics: Kinematics, options: ConvertOptions) -> ReadMotion:
    quat = raw.root_quat if raw.quat_order == "wxyz" else raw.root_quat[:, [3, 0, 1, 2]]
    root = raw.root_pos * options.scale
    root[:, 2] += options.root_height_offset
    path = Trajectory(
        fps=raw.fps,
        root_pos=root,
        root_quat=_unit(quat, raw.source),
        joint_pos=torch.deg2rad(raw.joint_pos) if options.degrees else raw.joint_pos,
    )
    for name, value in (("the root's position", path.root_pos), ("joint_pos", path.joint_pos)):
        fine = torch.isfinite(value).all(dim=1)
        if not bool(fine.all()):
            raise DataError(f"{raw.source}: {name} is not finite at frame {int((~fine).int().argmax())}")
    if len(path.joint_pos) < 2:
        raise DataError(f"{raw.source}: {len(path.joint_pos)} frames: a clip needs at least 2")
    doubts = _doubts(raw, path.joint_pos, robot, options)
    path = replace(path, root_quat=continuous(path.root_quat))
    clip = clip_of(resample(path, options.fps), robot, kinematics, raw.source)
    return ReadMotion(clip=clip, notes=(*raw.notes, *doubts))


def _doubts(raw: RawMotion, joint_pos: Tensor, robot: EntityIndex, options: ConvertOptions) -> tuple[str, ...]:
    """Return which options look wrong. Raises DataError for joints that can only be in degrees and were not said to."""
    in_degrees = degrees_problem(joint_pos, robot)
    if in_degrees is not None and not options.degrees:
        raise DataError(f"{raw.source}: {in_degrees.what}: give --degrees")
    notes = (
        degrees_note(joint_pos) if options.degrees else None,
        order_note(raw.root_quat, raw.quat_order) if options.quat_order is not None else None,
    )
    return tuple(note for note in notes if note is not None)


def _unit(quat: Tensor, source: str) -> Tensor:
    norm = torch.linalg.vector_norm(quat, dim=1, keepdim=True)
    off = ~((norm[:, 0] - 1.0).abs() <= UNIT_NORM_ERROR)
    if bool(off.any()):
        frame = int(off.int().argmax())
        raise DataError(
            f"{source}: the root's quaternion has norm {float(norm[frame, 0]):.3f} at frame {frame}, expected 1: are "
            "these its columns?"
        )
    unit: Tensor = quat / norm
    return unit
