"""Reward terms on states set by hand."""

import pytest
import torch

from domain.entity import EntitySelection, EntitySelector
from domain.errors import ConfigurationError
from domain.managers.terms import TermCfg, bind_term
from domain.mdp import rewards
from domain.view import EnvView
from tests.support.small_env import make_view, mask


def joints(view: EnvView) -> EntitySelection:
    return EntitySelection(EntitySelector(), view.entity("robot"))


def tracking() -> EnvView:
    view = make_view()
    view.commands["twist"] = torch.tensor([[0.5, 0.0, 1.0]] * 2)
    view.sensor("linvel")[:] = torch.tensor([1.0, 0.0, 9.0])
    view.sensor("gyro")[:] = torch.tensor([9.0, 9.0, 2.0])
    return view


def test_a_velocity_error_of_the_kernels_width_gives_exp_minus_one() -> None:
    value = rewards.track_planar_velocity(tracking(), command="twist", sensor="linvel", sigma=torch.tensor(0.25))

    torch.testing.assert_close(value, torch.full((2,), 0.36788), atol=1e-5, rtol=0)


def test_a_yaw_error_of_the_kernels_width_gives_exp_minus_one() -> None:
    value = rewards.track_yaw_rate(tracking(), command="twist", sensor="gyro", sigma=torch.tensor(1.0))

    torch.testing.assert_close(value, torch.full((2,), 0.36788), atol=1e-5, rtol=0)


def test_squares_of_sensor_columns() -> None:
    view = tracking()
    view.sensor("upvector")[:] = torch.tensor([0.3, 0.4, 0.86])

    assert rewards.vertical_velocity_l2(view, sensor="linvel").tolist() == [81.0, 81.0]
    assert rewards.roll_pitch_rate_l2(view, sensor="gyro").tolist() == [162.0, 162.0]
    torch.testing.assert_close(rewards.flat_orientation_l2(view, sensor="upvector"), torch.full((2,), 0.25))


def test_the_height_error_is_squared() -> None:
    torch.testing.assert_close(rewards.base_height_l2(make_view(), target=torch.tensor(0.3)), torch.full((2,), 0.04))


def test_alive_and_terminated_follow_the_flag() -> None:
    view = make_view()
    view.terminated.copy_(mask(1, 0))

    assert rewards.alive(view).tolist() == [0.0, 1.0]
    assert rewards.terminated(view).tolist() == [1.0, 0.0]
    assert rewards.constant(view).tolist() == [1.0, 1.0]


def test_first_and_second_differences_of_the_action() -> None:
    view = make_view()
    view.action, view.previous_action = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])
    view.action_before_previous = torch.tensor([[1.0, 0.0]])

    assert rewards.action_rate_l2(view).tolist() == [5.0]
    assert rewards.action_acceleration_l2(view).tolist() == [8.0]  # (1 - 0 + 1)^2 + 2^2


def test_sums_over_joints() -> None:
    view = make_view()
    view.state.qpos[:, 7:] += torch.tensor([0.5, 0.0, -0.25])
    view.state.qvel[:, 6:] = torch.tensor([1.0, 2.0, 0.0])

    torch.testing.assert_close(rewards.joint_deviation_l1(view, joints=joints(view)), torch.full((2,), 0.75))
    assert rewards.joint_velocity_l2(view, joints=joints(view)).tolist() == [5.0, 5.0]


def test_squared_deviations_count_as_much_as_their_weights() -> None:
    view = make_view()
    view.state.qpos[:, 7:] += torch.tensor([0.5, 1.0, -2.0])

    def found(**params: object) -> torch.Tensor:
        term = bind_term(TermCfg(func=rewards.JointDeviationL2, params=params), view, "rewards.pose")
        value: torch.Tensor = term()
        return value

    every = EntitySelector()
    torch.testing.assert_close(found(joints=every, weights=(4.0, 0.0, 0.5)), torch.full((2,), 3.0))
    torch.testing.assert_close(found(joints=every, weights=2.0), torch.full((2,), 10.5))
    torch.testing.assert_close(found(joints=EntitySelector(joints=("ankle",)), weights=3.0), torch.full((2,), 12.0))
    with pytest.raises(ConfigurationError, match="rewards.pose: weights has 2 numbers for 3 joints"):
        found(joints=every, weights=(1.0, 2.0))
    with pytest.raises(ConfigurationError, match="rewards.pose.params.weights is -1.0, outside"):
        found(joints=every, weights=-1.0)


def test_only_what_is_beyond_the_hard_range_counts() -> None:
    view = make_view()
    view.state.qpos[0, 7:] = torch.tensor([1.25, -2.5, 99.0])  # ranges +-1, +-2, none

    torch.testing.assert_close(rewards.joint_limit_violation(view, joints=joints(view)), torch.tensor([0.75, 0.0]))
    squares = rewards.joint_limit_violation_l2(view, joints=joints(view))
    torch.testing.assert_close(squares, torch.tensor([0.25**2 + 0.5**2, 0.0]))


def test_acceleration_is_a_difference_over_a_control_step_and_starts_at_0() -> None:
    view = make_view()
    term = rewards.JointAccelerationL2(view, joints=joints(view))
    assert term().tolist() == [0.0, 0.0]
    view.state.qvel[:, 6] = 0.2

    torch.testing.assert_close(term(), torch.full((2,), 100.0))  # (0.2 / 0.02)^2

    view.state.qvel[:, 6] = 0.4
    term.reset(mask(1, 0))
    torch.testing.assert_close(term(), torch.tensor([0.0, 100.0]))
    assert set(term.state_dict()) == {"previous", "seen"}
