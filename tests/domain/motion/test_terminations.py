"""Ends of episodes on both sides of each threshold; row 0 stays, row 1 ends."""

import pytest
import torch

from domain.errors import ConfigurationError
from domain.managers.terms import check_params
from domain.motion import terminations
from domain.motion.command import MotionCommand
from domain.rotations import quat_from_euler_xyz, quat_mul
from domain.view import EnvView
from tests.support.host_sync import ForbidHostSync
from tests.support.standing import tracked_view

State = tuple[EnvView, MotionCommand]
WRISTS = ("left_wrist_yaw_link", "right_wrist_yaw_link")


@pytest.fixture
def state() -> State:
    return tracked_view(2)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("limit", [0.25, 0.5])
def test_an_anchor_too_high_or_too_low_ends(limit: float, sign: float, state: State) -> None:
    view, motion = state
    motion.robot_anchor_pos[:, 2] += sign * torch.tensor([limit - 0.001, limit + 0.001])

    assert terminations.anchor_height_off(view, command="motion", limit=torch.tensor(limit)).tolist() == [False, True]


def test_an_anchor_far_away_at_the_right_height_goes_on(state: State) -> None:
    view, motion = state
    motion.robot_anchor_pos[:, :2] += 5.0

    assert not terminations.anchor_height_off(view, command="motion", limit=torch.tensor(0.25)).any()


@pytest.mark.parametrize("axis", [0, 1])
def test_an_anchor_that_leans_otherwise_than_the_reference_ends(axis: int, state: State) -> None:
    view, motion = state
    motion.anchor_quat[:] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    # Upright against cos(angle): 1 - 0.21 = 0.79 and 1 - 0.19 = 0.81.
    for row, cosine in enumerate((0.21, 0.19)):
        angles = torch.zeros(3)
        angles[axis] = torch.arccos(torch.tensor(cosine))
        motion.robot_anchor_quat[row] = quat_from_euler_xyz(*angles)

    assert terminations.anchor_tilt_off(view, command="motion", limit=torch.tensor(0.8)).tolist() == [False, True]


def test_a_reference_that_leans_as_well_goes_on_whatever_the_heading(state: State) -> None:
    view, motion = state
    lean = quat_from_euler_xyz(*torch.tensor([1.5, 0.0, 0.0]))
    motion.anchor_quat[:] = lean
    motion.robot_anchor_quat[:] = -quat_mul(quat_from_euler_xyz(*torch.tensor([0.0, 0.0, 2.0])), lean)

    assert not terminations.anchor_tilt_off(view, command="motion", limit=torch.tensor(0.01)).any()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("body", WRISTS)
def test_any_listed_body_too_high_or_too_low_ends(body: str, sign: float, state: State) -> None:
    view, motion = state
    off = sign * torch.tensor([0.249, 0.251])
    motion.robot_body_pos[:, motion.bodies.index(body), 2] += off
    motion.robot_body_pos[:, motion.bodies.index("left_elbow_link"), 2] += 1.0

    term = terminations.BodyHeightOff(view, command="motion", bodies=WRISTS, limit=torch.tensor(0.25))

    assert term().tolist() == [False, True]


def test_a_body_that_is_not_tracked_is_refused_by_name(state: State) -> None:
    with pytest.raises(ConfigurationError, match="unknown tracked body 'left_wrist_link': did you mean"):
        terminations.BodyHeightOff(state[0], command="motion", bodies=("left_wrist_link",), limit=torch.tensor(0.25))


def test_the_last_frame_of_a_clip_is_its_end(state: State) -> None:
    view, motion = state
    motion.frame.copy_(motion.clip_end + torch.tensor([-1, 0]))

    assert terminations.clip_end(view, command="motion").tolist() == [False, True]


def test_a_difference_of_gravity_above_two_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"terminations.tilt.params.limit is 2.5, outside \(0.0, 2.0\]"):
        check_params(terminations.anchor_tilt_off, {"command": "motion", "limit": 2.5}, "terminations.tilt")


def test_no_termination_waits_for_the_device(state: State) -> None:
    view, limit = state[0], torch.tensor(0.25)
    term = terminations.BodyHeightOff(view, command="motion", bodies=WRISTS, limit=limit)

    with ForbidHostSync():
        term()
        terminations.anchor_height_off(view, command="motion", limit=limit)
        terminations.anchor_tilt_off(view, command="motion", limit=limit)
        terminations.clip_end(view, command="motion")
