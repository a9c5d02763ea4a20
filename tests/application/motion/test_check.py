"""The report on a clip: what is wrong, and the command that mends it."""

import dataclasses

import pytest
import torch

from application.motion.check import MotionReport, check_motion
from application.motion.findings import REORDER, Finding, convert_command, line_of
from application.motion.schema import ReadMotion
from application.motion.trajectory import clip_of, trajectory_of
from domain.motion.clip import MotionClip
from tests.support.motion_files import builtin, g1_kinematics, g1_robot, g1_scene

ROBOT = g1_robot()


def report(clip: MotionClip, rate: float = 50.0) -> MotionReport:
    return check_motion(ReadMotion(clip=clip), g1_scene().index, g1_kinematics(), rate)


def options(clip: MotionClip) -> list[str | None]:
    return [finding.options for finding in report(clip).findings]


def test_every_body_has_its_largest_error_and_its_frame() -> None:
    clip = builtin("sway")
    foot = clip.bodies.index("right_ankle_roll_link")
    moved = clip.body_pos.clone()
    moved[200, foot, 0] += 0.03

    found = {body.body: body for body in report(dataclasses.replace(clip, body_pos=moved)).bodies}

    assert len(found) == 30
    assert found["right_ankle_roll_link"].distance == pytest.approx(0.03, abs=1e-5)
    assert found["right_ankle_roll_link"].distance_frame == 200
    assert [name for name, body in found.items() if body.off] == ["right_ankle_roll_link"]


@pytest.mark.parametrize(("factor", "option"), [(100.0, "--scale 0.01"), (1000.0, "--scale 0.001")])
def test_another_unit_is_the_first_finding_and_the_ends_follow(factor: float, option: str) -> None:
    """FR-11."""
    clip = builtin("squat")

    found = report(dataclasses.replace(clip, body_pos=clip.body_pos * factor))

    assert found.findings[0].options == option
    assert [end.term for end in found.ends] == ["anchor_pos", "ee_body_pos"]
    # Where it floats says nothing once the unit is wrong.
    assert not any("above the floor" in finding.what for finding in found.findings)


def test_half_a_metre_too_high_is_mended_by_its_height() -> None:
    """FR-11."""
    clip = builtin("squat")
    moved = clip.body_pos.clone()
    moved[..., 2] += 0.5

    found = report(dataclasses.replace(clip, body_pos=moved))

    assert found.findings[0].options == "--root-height-offset -0.500"
    assert [(end.term, end.frame) for end in found.ends] == [("anchor_pos", 12)]
    assert found.clearance == pytest.approx((0.5, 0.5), abs=1e-4)


@pytest.mark.parametrize(("height", "option"), [(0.06, "-0.060"), (-0.04, "0.040")])
def test_a_little_off_the_floor_ends_nothing_and_is_told(height: float, option: str) -> None:
    clip = builtin("squat")
    moved = clip.body_pos.clone()
    moved[..., 2] += height

    found = report(dataclasses.replace(clip, body_pos=moved))

    assert [finding.options for finding in found.findings] == [f"--root-height-offset {option}"]
    assert found.ends == ()


def test_a_rate_field_that_is_doubled_and_one_that_only_differs() -> None:
    """FR-11."""
    assert options(dataclasses.replace(builtin("squat"), fps=100.0)) == ["--fps-in 50"]
    assert options(builtin("squat", 30.0)) == ["--fps 50"]
    # As near as an environment asks for, and no nearer.
    assert options(dataclasses.replace(builtin("squat"), fps=50.02)) == ["--fps 50"]
    assert options(dataclasses.replace(builtin("squat"), fps=50.004)) == []
    assert report(builtin("squat", 30.0), rate=30.0).findings == ()


def test_a_sign_that_changes_is_told_with_body_and_frame() -> None:
    clip = builtin("sway")
    quats = clip.body_quat.clone()
    quats[50:, 3] *= -1.0

    (finding,) = report(dataclasses.replace(clip, body_quat=quats)).findings

    assert finding.what.startswith(f"body_quat_w changes its sign 1 times, the first is '{clip.bodies[3]}' at frame 50")


def test_joints_beyond_their_ranges_and_speeds_are_told() -> None:
    path = trajectory_of(builtin("sway"), ROBOT)
    joints = path.joint_pos.clone()
    joints[120, ROBOT.joints.index("waist_roll_joint")] = 0.72
    joints[30, ROBOT.joints.index("left_elbow_joint")] = 1.9
    clip = clip_of(dataclasses.replace(path, joint_pos=joints), ROBOT, g1_kinematics(), "bent")

    texts = [finding.what for finding in report(clip).findings]

    # 0.52 rad is the end of the range; 1.3 rad over two frames are 32.5 rad/s.
    assert texts == [
        "1 of 29 joints leave their ranges, the furthest is 'waist_roll_joint', by 0.200 rad at frame 120",
        "a joint moves at 32.5 rad/s at frame 29 ('left_elbow_joint'), above 30",
    ]


def test_a_root_that_jumps_is_told() -> None:
    path = trajectory_of(builtin("sway"), ROBOT)
    root = path.root_pos.clone()
    root[100:, 0] += 1.0
    clip = clip_of(dataclasses.replace(path, root_pos=root), ROBOT, g1_kinematics(), "jump")

    assert any("the root moves at 25.0 m/s at frame 99" in finding.what for finding in report(clip).findings)


def test_velocities_of_bodies_that_are_another_motions_are_told() -> None:
    clip = builtin("squat")

    (finding,) = report(dataclasses.replace(clip, body_lin_vel=torch.zeros_like(clip.body_lin_vel))).findings

    assert finding.what.startswith("body_lin_vel_w is not the velocity of body_pos_w: 0.00 times it")


def test_notes_are_no_findings() -> None:
    clip = builtin("sway")
    read = ReadMotion(clip=clip, notes=("no joint_names",))

    found = check_motion(read, g1_scene().index, g1_kinematics(), 50.0)

    assert (found.notes, found.findings) == (("no joint_names",), ())


def test_the_command_that_mends_has_the_file_and_the_options() -> None:
    assert convert_command("a.npz", "--scale 0.01") == "unilab motion convert a.npz --scale 0.01 --out NEW.npz"
    assert convert_command("a.npz", "") == "unilab motion convert a.npz --out NEW.npz"


def test_no_command_is_offered_while_columns_are_in_another_order() -> None:
    """A conversion would make bodies and velocities that fit the wrong joints."""
    clip = builtin("squat")
    places = [clip.joints.index("left_knee_joint"), clip.joints.index("left_elbow_joint")]
    joints = clip.joint_pos.clone()
    joints[:, places] = joints[:, places[::-1]]
    raised = clip.body_pos + torch.tensor([0.0, 0.0, 0.5])

    found = report(dataclasses.replace(clip, joint_pos=joints, body_pos=raised)).findings

    assert len(found) > 1
    assert [finding.options for finding in found] == [None] * len(found)
    assert found[0].mend == REORDER


def test_a_finding_is_one_line_with_what_mends_it() -> None:
    assert line_of(Finding(what="low"), "a.npz") == "low"
    assert line_of(Finding(what="low", mend="lift it"), "a.npz") == "low: lift it"
    assert line_of(Finding(what="low", options="--scale 2"), "a.npz") == (
        "low: 'unilab motion convert a.npz --scale 2 --out NEW.npz'"
    )
