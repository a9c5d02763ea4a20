"""Columns of a table: by name where it has names, else by position."""

import pytest
import torch

from application.motion.ports import MotionTable
from application.motion.table_columns import columns_of
from domain.errors import DataError
from tests.support.motion_files import builtin, g1_robot

ROBOT = g1_robot()
CLIP = builtin("sway")
ROWS = torch.cat((CLIP.body_pos[:, 0], CLIP.body_quat[:, 0], CLIP.joint_pos), dim=1).double()
NAMES = ("x", "y", "z", "qw", "qx", "qy", "qz", *CLIP.joints)


def table(rows: torch.Tensor = ROWS, header: tuple[str, ...] | None = None) -> MotionTable:
    return MotionTable(source="dance.csv", header=header, rows=rows)


def test_without_names_columns_count() -> None:
    found = columns_of(table(), ROBOT, "xyzw")

    assert torch.equal(found.root_pos, ROWS[:, :3])
    assert torch.equal(found.root_quat, ROWS[:, 3:7])
    assert torch.equal(found.joint_pos, ROWS[:, 7:])
    assert found.quat_order == "xyzw"
    assert "by position" in found.notes[0]


@pytest.mark.parametrize(
    "header",
    [
        NAMES,
        ("X", "Y", "Z", "root_rot_w", "root_rot_x", "root_rot_y", "root_rot_z", *CLIP.joints),
        (
            *(f"root_pos_{axis}" for axis in "xyz"),
            *(f"quat_{part}" for part in "wxyz"),
            *(joint.removesuffix("_joint") for joint in CLIP.joints),
        ),
    ],
)
def test_with_names_order_does_not_count(header: tuple[str, ...]) -> None:
    order = torch.randperm(len(header), generator=torch.Generator().manual_seed(1)).tolist()
    mixed = table(ROWS[:, order], tuple(header[place] for place in order))

    found = columns_of(mixed, ROBOT, None)

    assert torch.equal(torch.cat((found.root_pos, found.root_quat, found.joint_pos), dim=1), ROWS)
    assert (found.quat_order, found.notes) == ("wxyz", ())


def test_columns_of_something_else_are_left_out_and_counted() -> None:
    rows = torch.cat((torch.arange(len(ROWS)).double()[:, None], ROWS), dim=1)

    found = columns_of(table(rows, ("time", *NAMES)), ROBOT, None)

    assert torch.equal(found.joint_pos, ROWS[:, 7:])
    assert found.notes == ("1 column that is neither root nor joint is left out: 'time'",)


def test_several_columns_that_are_left_out_are_named() -> None:
    more = torch.zeros(len(ROWS), 5).double()

    found = columns_of(table(torch.cat((ROWS, more), dim=1), (*NAMES, "a", "b", "c", "d", "e")), ROBOT, None)

    assert found.notes == ("5 columns that are neither root nor joints are left out: 'a', 'b', 'c', 'd' and 1 more",)


def test_a_column_with_a_slip_in_its_name_is_asked_for() -> None:
    names = tuple("Left_Knee_joynt" if name == "left_knee_joint" else name for name in NAMES)

    with pytest.raises(
        DataError, match=r"no column 'left_knee_joint'; did you mean 'left_knee_joint' by 'Left_Knee_joynt'\?$"
    ):
        columns_of(table(ROWS, names), ROBOT, None)


def test_without_an_order_of_the_quaternion_nothing_is_guessed_and_a_hint_given() -> None:
    rows = ROWS.clone()
    rows[:, 3:7] = torch.tensor([0.02, 0.05, 0.6, 0.8], dtype=torch.float64)

    with pytest.raises(DataError, match=r"give --quat-order wxyz or xyzw \(the robot is upright with xyzw\)"):
        columns_of(table(rows), ROBOT, None)


def test_an_order_that_cannot_be_told_gets_no_hint() -> None:
    with pytest.raises(DataError, match=r"give --quat-order wxyz or xyzw$"):
        # A turn about z by 180 degrees one way, none the other way.
        columns_of(table(torch.cat((ROWS[:, :3], 0.5 * torch.ones(len(ROWS), 4), ROWS[:, 7:]), dim=1)), ROBOT, None)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS[:, :30], None, r"has 30 columns without names, expected 36: x y z, quaternion, and the 29 joints"),
        (ROWS[:, 1:], NAMES[1:], r"no column 'x' or 'root_x' or 'root_pos_x' for the root's position"),
        (ROWS[:, :-1], NAMES[:-1], r"no column 'right_wrist_yaw_joint'"),
        (ROWS, ("x", *NAMES[:1], *NAMES[2:]), r"column 'x' is there twice"),
    ],
)
def test_a_column_that_is_missing_is_named(rows: torch.Tensor, header: tuple[str, ...] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        columns_of(table(rows, header), ROBOT, None)


def test_an_order_contradicts_columns_with_names() -> None:
    with pytest.raises(DataError, match="leave --quat-order out"):
        columns_of(table(ROWS, NAMES), ROBOT, "xyzw")


def test_an_order_may_say_what_the_names_say() -> None:
    turned = (*NAMES[:3], *NAMES[4:7], NAMES[3], *NAMES[7:])
    rows = ROWS[:, [*range(3), 4, 5, 6, 3, *range(7, 36)]]

    found, plain = columns_of(table(rows, turned), ROBOT, "xyzw"), columns_of(table(ROWS, NAMES), ROBOT, "wxyz")

    assert torch.equal(found.root_quat, plain.root_quat)
    with pytest.raises(DataError, match="as xyzw: leave --quat-order out"):
        columns_of(table(rows, turned), ROBOT, "wxyz")
