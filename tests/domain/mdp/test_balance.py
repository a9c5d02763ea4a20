"""The product reward of a pole on a cart, with the hip as cart and the knee as pole."""

import math
from typing import Any

import pytest
import torch

from domain.errors import ConfigurationError
from domain.managers.reward import RewardManager, RewardTermCfg
from domain.mdp.balance import upright_and_centered
from domain.view import EnvView
from tests.support.full_task import ALL, HIP, KNEE
from tests.support.small_env import make_view


def value(view: EnvView, **selectors: Any) -> float:
    params = {"cart": HIP, "pole": KNEE, "position_margin": 2.0, "velocity_margin": 5.0, **selectors}
    term = RewardTermCfg(func=upright_and_centered, weight=1.0, params=params)
    return float(RewardManager({"r": term}, view, scale_by_dt=False).compute()[0])


def upright(num_envs: int = 2) -> EnvView:
    view = make_view(num_envs)
    view.state.qpos[:, 8] = 0.0
    view.action = torch.zeros(num_envs, 1)
    return view


def test_upright_centred_still_and_without_control_is_1() -> None:
    assert value(upright()) == 1.0


def test_hanging_is_0() -> None:
    view = upright()
    view.state.qpos[:, 8] = math.pi

    assert abs(value(view)) < 1e-6


def test_each_kernel_falls_to_0_1_at_its_margin() -> None:
    moved, fast = upright(), upright()
    moved.state.qpos[:, 7] += 2.0
    fast.state.qvel[:, 7] = 5.0

    assert value(moved) == pytest.approx(0.55)  # (1 + 0.1) / 2
    assert value(fast) == pytest.approx(0.55)


def test_full_control_costs_a_fifth_of_what_is_left() -> None:
    view = upright()
    view.action.fill_(1.0)

    assert value(view) == pytest.approx(0.82)  # (4 + 0.1) / 5


def test_a_selection_of_several_joints_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"rewards.r returned .*\(3, 3\)"):
        value(upright(3), cart=ALL)
