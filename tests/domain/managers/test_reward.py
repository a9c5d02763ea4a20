"""The weighted sum of reward terms."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.reward import RewardManager
from domain.managers.state import Stateful
from domain.view import EnvView
from tests.support.small_env import age, make_view, mask, one, reward


def test_a_step_is_the_sum_of_weight_times_value_times_dt() -> None:
    view = make_view()
    rewards = RewardManager({"one": reward(one, 2.0), "age": reward(age, -1.0)}, view)
    view.episode_length.copy_(torch.tensor([0, 3]))

    torch.testing.assert_close(rewards.compute(), torch.tensor([2.0, -1.0]) * 0.02)
    assert rewards.weighted.tolist() == [[2.0, 0.0], [2.0, -3.0]]


def test_dt_can_be_left_out() -> None:
    rewards = RewardManager({"one": reward(one, 2.0)}, make_view(), scale_by_dt=False)

    assert rewards.compute().tolist() == [2.0, 2.0]


def test_a_constant_weight_of_0_drops_the_term() -> None:
    def explodes(env: EnvView) -> Tensor:
        raise AssertionError("called")

    rewards = RewardManager({"one": reward(one), "off": reward(explodes, 0.0)}, make_view())

    assert rewards.names == ("one",)
    assert rewards.dropped == ("off",)
    rewards.compute()


def test_a_weight_of_0_that_a_curriculum_targets_stays() -> None:
    view = make_view()
    rewards = RewardManager({"one": reward(one, 0.0)}, view, scale_by_dt=False, tuned=("rewards.one.weight",))
    assert rewards.compute().tolist() == [0.0, 0.0]

    view.tunable("rewards.one.weight").fill_(3.0)

    assert rewards.compute().tolist() == [3.0, 3.0]


def test_a_dropped_terms_parameters_are_checked_all_the_same() -> None:
    with pytest.raises(ConfigurationError, match="rewards.off.params: unknown parameter 'sigm'"):
        RewardManager({"off": reward(one, 0.0, sigm=1.0)}, make_view())


def test_episode_sums_add_up_and_a_reset_zeroes_its_rows() -> None:
    rewards = RewardManager({"one": reward(one, 2.0)}, make_view())
    for _ in range(3):
        rewards.compute()
        rewards.accumulate()
    torch.testing.assert_close(rewards.episode_sums, torch.full((2, 1), 0.12))

    rewards.reset(mask(1, 0))

    torch.testing.assert_close(rewards.episode_sums, torch.tensor([[0.0], [0.12]]))


def test_a_void_row_adds_nothing() -> None:
    rewards = RewardManager({"one": reward(one)}, make_view(), scale_by_dt=False)
    rewards.compute()
    rewards.void(mask(0, 1))
    rewards.accumulate()

    assert rewards.episode_sums.tolist() == [[1.0], [0.0]]


def test_no_terms_reward_0() -> None:
    assert RewardManager({}, make_view()).compute().tolist() == [0.0, 0.0]


def test_a_step_returns_a_fresh_tensor() -> None:
    rewards = RewardManager({"one": reward(one)}, make_view(), scale_by_dt=False)
    first = rewards.compute()
    first.fill_(7.0)

    assert rewards.compute().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shape", [(2, 1), (), (3,)])
def test_a_term_of_another_shape_is_refused_by_name(shape: tuple[int, ...]) -> None:
    """FR-41."""

    def term(env: EnvView) -> Tensor:
        return torch.zeros(shape)

    with pytest.raises(ConfigurationError, match="rewards.odd returned torch.float32"):
        RewardManager({"odd": reward(term)}, make_view())


@pytest.mark.parametrize("weight", [math.nan, math.inf, True, "1"])
def test_a_weight_that_is_no_finite_number_is_refused(weight: Any) -> None:
    with pytest.raises(ConfigurationError, match="rewards.one.weight is"):
        RewardManager({"one": reward(one, weight)}, make_view())


def test_class_terms_are_reset_and_saved() -> None:
    class Calls(Stateful):
        def __init__(self, env: EnvView) -> None:
            super().__init__()
            self.calls = self.keep_rows("calls", env.num_envs, device=env.device)

        def __call__(self) -> Tensor:
            self.calls += 1.0
            return self.calls.clone()

        def reset(self, rows: Tensor) -> None:
            self.calls.masked_fill_(rows, 0.0)

    rewards = RewardManager({"calls": reward(Calls)}, make_view(), scale_by_dt=False)
    rewards.reset(mask(1, 1))
    rewards.compute()
    rewards.reset(mask(1, 0))

    assert rewards.compute().tolist() == [1.0, 2.0]
    assert rewards.state_dict()["calls/calls"].tolist() == [1.0, 2.0]
