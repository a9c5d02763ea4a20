"""Units that show by themselves: joints in degrees, a root in centimetres."""

import dataclasses

import pytest
import torch

from application.motion.agreement import compare
from application.motion.check import check_motion
from application.motion.schema import ReadMotion
from application.motion.trajectory import clip_of, trajectory_of
from application.motion.units import degrees_note, degrees_problem, scale_problem
from domain.motion.clip import MotionClip
from tests.support.motion_files import builtin, g1_kinematics, g1_robot, g1_scene

ROBOT = g1_robot()


def made(scale: float = 1.0, *, degrees: bool = False) -> MotionClip:
    """Return a clip that fits itself, though its root or joints are in another unit."""
    path = trajectory_of(builtin("squat"), ROBOT)
    joints = torch.rad2deg(path.joint_pos) if degrees else path.joint_pos
    path = dataclasses.replace(path, root_pos=path.root_pos * scale, joint_pos=joints)
    return clip_of(path, ROBOT, g1_kinematics(), "made")


def test_joints_in_degrees_are_the_only_finding() -> None:
    found = check_motion(ReadMotion(clip=made(100.0, degrees=True)), g1_scene().index, g1_kinematics(), 50.0)

    (finding,) = found.findings
    assert finding.what.startswith("joint_pos looks like degrees, expected radians: 'left_knee_joint' is ")
    assert finding.options == "--degrees"


def test_a_full_turn_beyond_a_range_is_no_degree_yet() -> None:
    joints = builtin("squat").joint_pos.clone()
    knee = ROBOT.joints.index("left_knee_joint")
    joints[7, knee] = ROBOT.joint_range[knee][1] + 6.2
    assert degrees_problem(joints, ROBOT) is None

    joints[7, knee] += 0.2

    problem = degrees_problem(joints, ROBOT)
    assert problem is not None
    assert problem.what.endswith("'left_knee_joint' is 6.4 rad outside its range at frame 7")


def test_joints_that_hardly_move_were_not_in_degrees() -> None:
    assert degrees_note(torch.tensor([[0.0, 0.21]])) is None
    assert degrees_note(torch.tensor([[-0.15, 0.1]])) == (
        "with --degrees no joint is further than 0.150 rad from 0: leave it out if FILE is in radians"
    )


@pytest.mark.parametrize(("factor", "option"), [(100.0, "--scale 0.01"), (1000.0, "--scale 0.001")])
def test_a_root_in_another_unit_is_scaled_and_not_lowered(factor: float, option: str) -> None:
    found = check_motion(ReadMotion(clip=made(factor)), g1_scene().index, g1_kinematics(), 50.0)

    options = [finding.options for finding in found.findings if finding.options is not None]
    assert options == [option]


def test_five_metres_are_a_height_and_no_unit() -> None:
    clip = builtin("squat")
    lifted = dataclasses.replace(clip, body_pos=clip.body_pos + torch.tensor([0.0, 0.0, 5.0]))

    assert scale_problem(compare(lifted, ROBOT, g1_kinematics()), ROBOT) is None
    found = check_motion(ReadMotion(clip=lifted), g1_scene().index, g1_kinematics(), 50.0)
    assert found.findings[0].options == "--root-height-offset -5.000"
