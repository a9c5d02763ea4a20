"""Which columns of a table are the root and which the joints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from application.motion.names import left_out, meant
from application.motion.ports import MotionTable
from application.motion.tilt import more_upright
from domain.errors import DataError
from domain.physics import EntityIndex

POS_WIDTH = 3
QUAT_WIDTH = 4
ROOT_PREFIXES = ("", "root_", "root_pos_", "pos_", "p", "root_translate", "base_", "base_pos_")
"""What may stand before x, y and z in a column's name, without regard to capitals."""
QUAT_PREFIXES = ("q", "q_", "quat_", "root_q", "root_quat_", "root_rot_", "rot_", "root_quaternion", "base_quat_")
JOINT_SUFFIX = "_joint"


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Root and joints of a table, float64."""

    root_pos: Tensor
    """(frames, 3)."""
    root_quat: Tensor
    """(frames, 4), in ``quat_order``."""
    joint_pos: Tensor
    """(frames, joints), the robot's order."""
    quat_order: str
    notes: tuple[str, ...] = ()


def columns_of(table: MotionTable, robot: EntityIndex, quat_order: str | None) -> Columns:
    """Return root and joints: by the names of the columns, else x y z, quaternion, joints in the robot's order.

    Raises:
        DataError: A column is missing, there are too few or too many, or nothing says how the quaternion is written.
    """
    if table.header is not None:
        return _by_name(table, table.header, robot, quat_order)
    lead, expected = POS_WIDTH + QUAT_WIDTH, POS_WIDTH + QUAT_WIDTH + len(robot.joints)
    if table.rows.shape[1] != expected:
        raise DataError(
            f"{table.source} has {table.rows.shape[1]} columns without names, expected {expected}: x y z, quaternion, "
            f"and the {len(robot.joints)} joints of this robot; or name the columns in the first line"
        )
    quat = table.rows[:, POS_WIDTH:lead]
    if quat_order is None:
        upright = more_upright(quat)
        hint = "" if upright is None else f" (the robot is upright with {upright})"
        raise DataError(
            f"{table.source}: nothing says how its quaternion is written: give --quat-order wxyz or xyzw{hint}"
        )
    return Columns(
        root_pos=table.rows[:, :POS_WIDTH],
        root_quat=quat,
        joint_pos=table.rows[:, lead:],
        quat_order=quat_order,
        notes=("no names of columns: joints are taken by position, in the robot's order",),
    )


def _by_name(table: MotionTable, header: Sequence[str], robot: EntityIndex, quat_order: str | None) -> Columns:
    places: dict[str, int] = {}
    for place, name in enumerate(header):
        if name.casefold() in places:
            raise DataError(f"{table.source}: column '{name}' is there twice")
        places[name.casefold()] = place
    root = [_find(table, places, ROOT_PREFIXES, axis, "position") for axis in "xyz"]
    quat = [_find(table, places, QUAT_PREFIXES, part, "quaternion") for part in "wxyz"]
    order = "".join(part for _, part in sorted(zip(quat, "wxyz", strict=True)))
    if quat_order not in (None, order):
        raise DataError(f"{table.source} names the parts of its quaternion as {order}: leave --quat-order out")
    joints, missing = [], []
    for joint in robot.joints:
        known = [places[name] for name in (joint, joint.removesuffix(JOINT_SUFFIX), f"{joint}_dof") if name in places]
        joints += known[:1]
        missing += [] if known else [joint]
    others = [name for place, name in enumerate(header) if place not in {*root, *quat, *joints}]
    if missing:
        more = f", nor for {len(missing) - 1} more joints" if len(missing) > 2 else ""
        more = f", nor '{missing[1]}'" if len(missing) == 2 else more
        raise DataError(f"{table.source}: there is no column '{missing[0]}'{more}{meant(missing, others)}")
    notes = (left_out("column that is neither root nor joint", "columns that are neither root nor joints", others),)
    return Columns(
        root_pos=table.rows[:, root],
        root_quat=table.rows[:, quat],
        joint_pos=table.rows[:, joints],
        quat_order="wxyz",
        notes=notes if others else (),
    )


def _find(table: MotionTable, places: Mapping[str, int], prefixes: Sequence[str], part: str, what: str) -> int:
    for prefix in prefixes:
        if f"{prefix}{part}" in places:
            return places[f"{prefix}{part}"]
    named = " or ".join(f"'{prefix}{part}'" for prefix in prefixes[:3])
    raise DataError(f"{table.source}: there is no column {named} for the root's {what}")
