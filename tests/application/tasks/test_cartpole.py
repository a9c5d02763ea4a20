"""Cartpole against the figures of mjlab."""

from dataclasses import replace

import pytest
import torch

from application.tasks.cartpole import BALANCE
from domain.managers.state import set_rows
from tests.support.tasks import make_env, with_event


@pytest.mark.parametrize("task", ["cartpole_balance", "cartpole_swingup"])
def test_sizes_and_timing(task: str) -> None:
    env = make_env(task, 2)

    assert env.observations.layout["actor"] == {"cart_pos": 1, "pole_angle": 2, "cart_vel": 1, "pole_vel": 1}
    assert env.observations.widths == {"actor": 5, "critic": 5}
    assert (env.actions.dim, env.cfg.decimation, env.cfg.max_episode_length) == (1, 5, 1000)
    assert env.cfg.step_dt == pytest.approx(0.05)


def test_balance_starts_near_upright_and_swingup_near_hanging() -> None:
    balance, swingup = make_env("cartpole_balance", 64), make_env("cartpole_swingup", 64)

    upright, hanging = balance.reset()["actor"], swingup.reset()["actor"]

    assert bool((upright[:, 0].abs() <= 0.1).all())
    assert bool((upright[:, 1] >= 0.999).all())
    assert bool((hanging[:, 0] == 0.0).all())
    assert bool((hanging[:, 1] <= -0.999).all())


def test_reward_is_one_at_rest_upright_in_the_middle_without_control() -> None:
    cfg = replace(BALANCE.build("ppo").env, stagger_episodes=False)
    for event in ("reset_cart", "reset_pole"):
        cfg = with_event(cfg, event, position=(0.0, 0.0), velocity=(0.0, 0.0))
    env = make_env("cartpole_balance", 1, cfg=cfg)
    env.reset()

    reward = env.step(torch.zeros(1, 1)).reward

    torch.testing.assert_close(env.rewards.weighted, torch.ones(1, 1))
    torch.testing.assert_close(reward, torch.full((1,), 0.05))


def test_reward_factors_at_known_states() -> None:
    env = make_env("cartpole_balance", 1)
    env.reset()
    env.step(torch.zeros(1, 1))
    view = env.view
    # Pole at 90 degrees: 1/2. Cart, and pole velocity, at their margins: (1 + 0.1) / 2 each. Full control: 4.1 / 5.
    set_rows(view.state.qpos, torch.tensor([True]), torch.tensor([[2.0, torch.pi / 2]]))
    set_rows(view.state.qvel, torch.tensor([True]), torch.tensor([[0.0, 5.0]]))
    view.action.fill_(1.0)

    env.rewards.compute()

    torch.testing.assert_close(env.rewards.weighted, torch.tensor([[0.5 * 0.55 * 0.82 * 0.55]]))


def test_full_control_pushes_with_ten_newtons() -> None:
    env = make_env("cartpole_balance", 1)
    env.reset()
    before = float(env.view.state.qvel[0, 0])

    env.step(torch.ones(1, 1))

    # 10 N on 1.1 kg for 0.05 s, a little more as the pole does not follow at once.
    assert 0.45 < float(env.view.state.qvel[0, 0]) - before < 0.51
