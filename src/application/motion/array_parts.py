"""Root and joints among the arrays of a motion file, also one that is not whole or of another project's form."""

from dataclasses import dataclass

from torch import Tensor

from application.motion.keys import FREE_POS, JOINTS, ROOT_POS, ROOT_QUAT
from application.motion.names import meant
from application.motion.ports import MotionArrays
from application.motion.schema import (
    BODY_NAMES,
    JOINT_NAMES,
    QUAT_ORDER,
    WORLD,
    check_texts,
    held,
    holds_no_numbers,
)
from domain.errors import DataError
from domain.physics import EntityIndex


@dataclass(frozen=True, kw_only=True)
class RootAndJoints:
    """What a file has of both, float64."""

    root_pos: Tensor
    """(frames, 3)."""
    root_quat: Tensor
    """(frames, 4), in the file's order."""
    joint_pos: Tensor
    """(frames, joints), the robot's order."""
    quat_order: str | None
    """None where the file's form does not say."""
    notes: tuple[str, ...] = ()


def root_and_joints(
    file: MotionArrays, robot: EntityIndex, *, free_joint: bool, root_body: int | None
) -> RootAndJoints:
    """Return root and joints.

    Args:
        file: Its arrays.
        robot: Names the joints and the root.
        free_joint: Whether the first 7 columns of the joints are the root's pose.
        root_body: Place of the root on the body axis.

    Raises:
        DataError: Something is missing or has another shape; names key, expected and found shape, and the option.
    """
    check_texts(file)
    key = next((name for name in JOINTS if name in file.arrays), None)
    if key is None:
        for name in JOINTS:
            if holds_no_numbers(file, name):
                raise DataError(f"{file.source}: {name} holds {held(file, name)}, expected numbers")
        raise DataError(
            f"{file.source}: joint_pos is missing (it holds {', '.join(sorted(file.arrays)) or 'no numbers'})"
        )
    value, notes = file.arrays[key], []
    if value.ndim != 2:
        raise DataError(f"{file.source}: {key} has shape {tuple(value.shape)}, expected (frames, joints)")
    names = file.texts.get(JOINT_NAMES)
    if names is None:
        notes.append("no joint_names: joints are taken by position, in the robot's order")
        names = robot.joints
    if names and names[0] not in robot.joints and value.shape[1] == len(names) - 1 + FREE_POS:
        names = names[1:]
    free = free_joint or (JOINT_NAMES in file.texts and value.shape[1] == len(names) + FREE_POS)
    lead = FREE_POS if free else 0
    if value.shape[1] != lead + len(names):
        mend = ": give --drop-free-joint if its first 7 columns are the root" if not free else ""
        raise DataError(
            f"{file.source}: {key} has shape {tuple(value.shape)}, expected (frames, {lead + len(names)}){mend}"
        )
    missing = [name for name in robot.joints if name not in names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        others = [name for name in names if name not in robot.joints]
        raise DataError(f"{file.source}: joint_names lacks '{missing[0]}'{more} of this robot{meant(missing, others)}")
    joints = value[:, [lead + names.index(name) for name in robot.joints]]
    if free:
        pos, quat, order = value[:, :3], value[:, 3:FREE_POS], "wxyz"
    else:
        pos, quat, known = _root(file, robot, root_body)
        order = "wxyz" if known else ""
    _check_rows(file, len(value), pos, quat)
    told = file.texts.get(QUAT_ORDER, (order,))[0]
    return RootAndJoints(root_pos=pos, root_quat=quat, joint_pos=joints, quat_order=told or None, notes=tuple(notes))


def _root(file: MotionArrays, robot: EntityIndex, root_body: int | None) -> tuple[Tensor, Tensor, bool]:
    """Return position and rotation of the root, and whether the form says how rotations are written."""
    pos_key = next((name for name in ROOT_POS if name in file.arrays), None)
    quat_key = next((name for name in ROOT_QUAT if name in file.arrays), None)
    if pos_key is not None and quat_key is not None and root_body is None:
        return file.arrays[pos_key], file.arrays[quat_key], False
    for key, width in (("body_pos_w", 3), ("body_quat_w", 4)):
        if key not in file.arrays:
            raise DataError(f"{file.source}: there is no root: {key} is missing, and so are root_pos and root_rot")
        if file.arrays[key].ndim != 3 or file.arrays[key].shape[2] != width:
            found = tuple(file.arrays[key].shape)
            raise DataError(f"{file.source}: {key} has shape {found}, expected (frames, bodies, {width})")
    count = file.arrays["body_pos_w"].shape[1]
    place = _place(file, robot, count) if root_body is None else root_body
    if not 0 <= place < min(count, file.arrays["body_quat_w"].shape[1]):
        raise DataError(f"{file.source}: --root-body is {place}, and there are {count} bodies: count from 0")
    return file.arrays["body_pos_w"][:, place], file.arrays["body_quat_w"][:, place], True


def _place(file: MotionArrays, robot: EntityIndex, count: int) -> int:
    """Return where the root is on the body axis."""
    names = file.texts.get(BODY_NAMES)
    if names is not None:
        if len(names) != count:
            raise DataError(
                f"{file.source}: body_names has {len(names)} names for {count} bodies: give --root-body INDEX"
            )
        if robot.root_body not in names:
            raise DataError(f"{file.source}: body_names lacks '{robot.root_body}': give --root-body INDEX")
        return names.index(robot.root_body)
    for known in ((WORLD, *robot.bodies), robot.bodies):
        if count == len(known):
            return known.index(robot.root_body)
    raise DataError(
        f"{file.source}: body_pos_w has shape {tuple(file.arrays['body_pos_w'].shape)}, expected (frames, "
        f"{len(robot.bodies) + 1}, 3): give --root-body INDEX, the root's place on the body axis"
    )


def _check_rows(file: MotionArrays, frames: int, pos: Tensor, quat: Tensor) -> None:
    for what, value, width in (("the root's position", pos, 3), ("the root's rotation", quat, 4)):
        if tuple(value.shape) != (frames, width):
            raise DataError(f"{file.source}: {what} has shape {tuple(value.shape)}, expected {(frames, width)}")
