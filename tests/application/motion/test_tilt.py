"""A root that is not upright, and the order of quaternions that may be the cause."""

import dataclasses
import math

import pytest
import torch

from application.motion.check import check_motion
from application.motion.schema import ReadMotion
from application.motion.tilt import more_upright, order_note, tilt_problem
from application.motion.trajectory import clip_of, trajectory_of
from domain.motion.clip import MotionClip
from tests.support.motion_files import builtin, g1_kinematics, g1_robot, g1_scene

ROBOT = g1_robot()


def read_as(yaw: float, places: list[int]) -> MotionClip:
    """Return a clip that faces ``yaw``, made with its root's quaternion in another order."""
    path = trajectory_of(builtin("squat"), ROBOT)
    quat = torch.tensor([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)], dtype=torch.float64)[places]
    return clip_of(
        dataclasses.replace(path, root_quat=quat.repeat(len(path.root_pos), 1)), ROBOT, g1_kinematics(), "made"
    )


def test_a_turn_about_z_is_upright() -> None:
    assert tilt_problem(read_as(2.5, [0, 1, 2, 3]), ROBOT, "wxyz") is None


def test_w_last_that_was_taken_as_w_first_is_mended_by_the_other_order_alone() -> None:
    # x y z w of a turn by 170 degrees: 170 degrees about an axis that lies.
    clip = read_as(math.radians(170.0), [1, 2, 3, 0])

    findings = check_motion(ReadMotion(clip=clip), g1_scene().index, g1_kinematics(), 50.0).findings

    assert [finding.options for finding in findings if finding.options is not None] == ["--quat-order xyzw"]
    assert any(
        finding.what.startswith("the robot is upside down in most frames ('pelvis' by 170") for finding in findings
    )


def test_a_file_that_says_w_last_has_the_other_order_as_its_mend() -> None:
    clip = read_as(math.radians(20.0), [3, 0, 1, 2])

    problem = tilt_problem(clip, ROBOT, "xyzw")

    assert problem is not None
    assert (problem.options, problem.mend) == ("--quat-order wxyz", None)
    # Where the file says w first, only its source can be read anew.
    made = tilt_problem(clip, ROBOT, "wxyz")
    assert made is not None
    assert (made.options, made.mend is not None) == (None, True)


def test_a_robot_that_lies_is_told_and_no_order_is_blamed() -> None:
    path = trajectory_of(builtin("squat"), ROBOT)
    half = math.sqrt(0.5)
    quat = torch.tensor([half, 0.0, half, 0.0], dtype=torch.float64).repeat(len(path.root_pos), 1)
    clip = clip_of(dataclasses.replace(path, root_quat=quat), ROBOT, g1_kinematics(), "lying")

    problem = tilt_problem(clip, ROBOT, "wxyz")

    assert problem is not None
    assert problem.what == "the robot is tilted in most frames ('pelvis' by 90 degrees)"
    assert (problem.options, problem.mend) == (None, None)


@pytest.mark.parametrize(("order", "other"), [("wxyz", "xyzw"), ("xyzw", "wxyz")])
def test_an_order_that_is_told_is_held_against_the_other(order: str, other: str) -> None:
    upright = torch.tensor([[0.8, 0.05, 0.02, 0.6]])
    written = upright if other == "wxyz" else upright[:, [1, 2, 3, 0]]

    assert more_upright(written) == other
    assert order_note(written, other) is None
    note = order_note(written, order)
    assert note is not None
    assert note.startswith(f"with --quat-order {order} the root is tilted by ")
    assert f"and with {other} by 6: check the order" in note
