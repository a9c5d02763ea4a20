"""Tracking rewards of a G1 that is off by 0.1 in row 0 and exact in row 1; 14 bodies, 29 joints."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.motion import rewards
from domain.motion.command import MotionCommand
from domain.rotations import quat_from_euler_xyz, quat_mul, turn_about_z
from domain.view import EnvView
from tests.support.standing import tracked_view

State = tuple[EnvView, MotionCommand]
TRACKING = (
    rewards.track_anchor_pos,
    rewards.track_anchor_ori,
    rewards.track_body_pos,
    rewards.track_body_ori,
    rewards.track_body_lin_vel,
    rewards.track_body_ang_vel,
    rewards.track_joint_pos,
    rewards.track_joint_vel,
)
NOD = quat_from_euler_xyz(*torch.tensor([0.0, 0.1, 0.0]))
"""0.1 rad about y."""


@pytest.fixture
def state() -> State:
    return tracked_view(2)


def value(term: Callable[..., Tensor], state: State, std: float) -> Tensor:
    return term(state[0], command="motion", std=torch.tensor(std))


def check(actual: Tensor, first: float) -> None:
    torch.testing.assert_close(actual, torch.tensor([first, 1.0]), atol=2e-6, rtol=0)


@pytest.mark.parametrize("term", TRACKING)
def test_agreement_is_worth_one(term: Callable[..., Tensor], state: State) -> None:
    torch.testing.assert_close(value(term, state, 0.3), torch.ones(2), atol=1e-6, rtol=0)


def test_an_anchor_that_is_a_tenth_of_a_metre_off(state: State) -> None:
    state[1].robot_anchor_pos[0] += torch.tensor([0.06, 0.0, -0.08])

    check(value(rewards.track_anchor_pos, state, 0.3), 0.894839)  # exp(-0.01 / 0.09)


def test_an_anchor_that_is_turned_by_a_tenth_of_a_radian(state: State) -> None:
    _, motion = state
    motion.robot_anchor_quat[0] = quat_mul(NOD, motion.robot_anchor_quat[0])

    check(value(rewards.track_anchor_ori, state, 0.4), 0.939413)  # exp(-0.01 / 0.16)


def test_one_body_of_fourteen_a_tenth_of_a_metre_off(state: State) -> None:
    state[1].robot_body_pos[0, 13] += torch.tensor([0.0, 0.08, 0.06])

    check(value(rewards.track_body_pos, state, 0.3), 0.992095)  # exp(-0.01 / 14 / 0.09)


def test_one_body_of_fourteen_turned_by_a_tenth_of_a_radian(state: State) -> None:
    _, motion = state
    motion.robot_body_quat[0, 3] = quat_mul(NOD, motion.robot_body_quat[0, 3])

    check(value(rewards.track_body_ori, state, 0.4), 0.995546)  # exp(-0.01 / 14 / 0.16)


def test_bodies_are_compared_with_the_targets_that_follow_the_robots_anchor(state: State) -> None:
    _, motion = state
    motion.body_pos[0, :, :2] += 1.0
    check(value(rewards.track_body_pos, state, 0.3), 1.0)

    motion.body_quat[0] = turn_about_z(torch.tensor(0.5), motion.body_quat[0])
    check(value(rewards.track_body_ori, state, 0.4), 1.0)


def test_one_linear_velocity_of_fourteen_a_tenth_off(state: State) -> None:
    state[1].robot_body_lin_vel[0, 0] += torch.tensor([0.1, 0.0, 0.0])

    check(value(rewards.track_body_lin_vel, state, 1.0), 0.999286)  # exp(-0.01 / 14)


def test_one_angular_velocity_of_fourteen_a_tenth_off(state: State) -> None:
    state[1].robot_body_ang_vel[0, 7] += torch.tensor([0.0, 0.0, -0.1])

    check(value(rewards.track_body_ang_vel, state, 3.14), 0.9999276)  # exp(-0.01 / 14 / 9.8596)


def test_one_joint_of_twenty_nine_a_tenth_off(state: State) -> None:
    view, motion = state
    view.entity("robot").joint_pos[0, 20] += 0.1
    motion.joint_vel[0, 4] -= 0.1

    check(value(rewards.track_joint_pos, state, 0.2), 0.991416)  # exp(-0.01 / 29 / 0.04)
    check(value(rewards.track_joint_vel, state, 1.0), 0.999655)  # exp(-0.01 / 29)


@pytest.mark.parametrize("term", [rewards.track_anchor_ori, rewards.track_body_ori])
def test_the_sign_of_a_quaternion_means_nothing(term: Callable[..., Tensor], state: State) -> None:
    state[1].robot_body_quat[0].neg_()

    check(value(term, state, 0.4), 1.0)


def test_a_half_turn_is_the_largest_error(state: State) -> None:
    _, motion = state
    motion.robot_anchor_quat[0] = quat_mul(torch.tensor([0.0, 0.0, 0.0, 1.0]), motion.robot_anchor_quat[0])

    check(value(rewards.track_anchor_ori, state, torch.pi), 0.367879)  # exp(-1)


def test_bodies_below_a_height_are_counted(state: State) -> None:
    view, motion = state
    motion.robot_body_pos[..., 2] = 1.0
    low = {"pelvis": 0.049, "left_knee_link": 0.051, "right_elbow_link": -0.2, "left_wrist_yaw_link": 0.0}
    for body, height in low.items():
        motion.robot_body_pos[0, motion.bodies.index(body), 2] = height
    bodies = ("pelvis", "(left|right)_knee_link", "right_elbow_link")

    term = rewards.BodiesBelow(view, command="motion", bodies=bodies, height=torch.tensor(0.05))

    assert term().tolist() == [2.0, 0.0]


def test_a_body_that_is_not_tracked_is_refused_by_name(state: State) -> None:
    with pytest.raises(ConfigurationError, match="unknown tracked body 'left_hand_link'"):
        rewards.BodiesBelow(state[0], command="motion", bodies=("left_hand_link",), height=torch.tensor(0.05))


def test_a_command_of_another_kind_is_refused(state: State) -> None:
    view, _ = state
    view.commands["twist"], view.command_terms["twist"] = torch.zeros(2, 3), object()

    with pytest.raises(ConfigurationError, match="command 'twist' is a object, and a MotionCommand is needed"):
        rewards.track_anchor_pos(view, command="twist", std=torch.tensor(0.3))
