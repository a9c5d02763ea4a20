"""Random numbers of learners: what a seed decides, and that exploration is new each time and as wide as promised."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from domain.learning.config import OffPolicyCfg
from tests.support.learners import (
    ALGORITHMS,
    FLASHSAC,
    FULL,
    PLAN,
    SAC,
    SMALL,
    TD3,
    changed,
    learner,
    load,
    observations,
    plan_of,
    tensors,
)

# FlashSAC holds its noise for some steps; held for one, it is new on each call like the others'.
UNHELD: dict[str, OffPolicyCfg] = {**SMALL, "flashsac": replace(FLASHSAC, noise_max_repeat=1)}
MANY = plan_of(2, num_envs=8192)
TWO_BOUNDS = replace(MANY, action_low=(-3.0, 0.0), action_high=(1.0, 0.5))


def unit(actions: Tensor) -> Tensor:
    """Return actions of ``TWO_BOUNDS`` in [-1, 1]."""
    low, high = torch.tensor(TWO_BOUNDS.action_low), torch.tensor(TWO_BOUNDS.action_high)
    return (2 * actions - low - high) / (high - low)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seed_decides_weights_actions_and_updates(algorithm: str) -> None:
    torch.manual_seed(0)
    one = learner(FULL[algorithm])
    torch.manual_seed(1)
    other = learner(FULL[algorithm])

    assert changed(tensors(one), tensors(other)) == set()
    assert torch.equal(one.act(observations()), other.act(observations()))
    one.update(0)
    other.update(0)
    assert changed(tensors(one), tensors(other)) == set()
    assert torch.equal(one.act(observations()), other.act(observations()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_seed_gives_other_weights_and_actions(algorithm: str) -> None:
    one, other = learner(SMALL[algorithm]), learner(SMALL[algorithm], plan=replace(PLAN, seed=2))
    first = "embed.weight" if algorithm == "flashsac" else "layers.0.weight"

    assert {f"actor/{first}", f"critic/{first}", "critic/head.weight"} <= changed(tensors(one), tensors(other))
    assert not (one.act(observations()) == other.act(observations())).any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_building_and_using_a_learner_leaves_the_global_generator_alone(algorithm: str) -> None:
    before = torch.get_rng_state()

    subject = learner(FULL[algorithm])
    subject.act(observations())
    subject.update(0)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_twin_critics_start_differently(algorithm: str) -> None:
    head = tensors(learner(SMALL[algorithm]))["critic/head.weight"]

    assert not torch.equal(head[0], head[1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exploration_is_new_on_each_call(algorithm: str) -> None:
    subject = learner(UNHELD[algorithm])
    actions = torch.stack([subject.act(observations()).clone() for _ in range(8)])

    assert not (actions[1:] == actions[:-1]).any()
    assert (actions.std(dim=0) > 0.0).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_actions_change_with_an_update(algorithm: str) -> None:
    updated, left = learner(UNHELD[algorithm]), learner(UNHELD[algorithm])
    before = updated.act(observations(), deterministic=True)

    updated.update(0)
    # The same noise for both: only the weights differ.
    updated.generator.set_state(left.generator.get_state())

    assert not torch.equal(updated.act(observations(), deterministic=True), before)
    assert not torch.equal(updated.act(observations()), left.act(observations()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_deterministic_actions_draw_nothing(algorithm: str) -> None:
    subject = learner(SMALL[algorithm])
    before = subject.generator.get_state()

    one, other = (subject.act(observations(), deterministic=True) for _ in range(2))

    assert torch.equal(subject.generator.get_state(), before)
    assert torch.equal(one, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_updates_draw_new_numbers_each_cycle(algorithm: str) -> None:
    subject = learner(SMALL[algorithm])
    states = [subject.generator.get_state()]

    for slot in (0, 1):
        subject.update(slot)
        states.append(subject.generator.get_state())

    assert not torch.equal(states[0], states[1])
    assert not torch.equal(states[1], states[2])


@pytest.mark.parametrize("updates", [0, 2])
@pytest.mark.parametrize("algorithm", ["sac", "flashsac"])
def test_exploring_actions_have_the_policy_s_spread(algorithm: str, updates: int) -> None:
    subject = learner(SMALL[algorithm], plan=TWO_BOUNDS)
    for slot in range(updates):
        subject.update(slot)
    # Weights of zero leave the heads' biases: means 0.4 and -0.2, raw log-stds 0 and 0.5.
    state = tensors(subject)
    bias = torch.tensor([0.4, -0.2, 0.0, 0.5])
    load(subject, {"actor/head.weight": torch.zeros_like(state["actor/head.weight"]), "actor/head.bias": bias})

    u = torch.atanh(unit(subject.act(observations(8192)).double()))

    low, high = (-5.0, 0.0) if algorithm == "sac" else (-10.0, 2.0)
    stds = [math.exp(low + (high - low) * (math.tanh(raw) + 1) / 2) for raw in (0.0, 0.5)]
    torch.testing.assert_close(u.mean(dim=0), torch.tensor([0.4, -0.2]).double(), atol=0.02, rtol=0)
    torch.testing.assert_close(u.std(dim=0), torch.tensor(stds).double(), atol=0, rtol=0.04)
    # Columns are drawn apart: their correlation is within five standard errors of none.
    assert torch.corrcoef(u.T)[0, 1].abs() < 5 / math.sqrt(8192)


def test_the_first_spread_of_sac_is_exp_of_minus_two_and_a_half() -> None:
    subject = learner(SAC, plan=MANY)

    u = torch.atanh(subject.act(observations(8192)).double())

    assert float(u.std()) == pytest.approx(0.0821, rel=0.03)
    assert float(u.mean()) == pytest.approx(0.0, abs=0.004)


def test_exploring_actions_of_td3_have_the_spread_of_their_scale_and_are_cut_at_the_bounds() -> None:
    subject = learner(replace(TD3, sigma_min=0.5, sigma_max=0.5), plan=TWO_BOUNDS)

    noise = unit(subject.act(observations(8192)) - subject.act(observations(8192), deterministic=True))
    noise = noise - unit(torch.zeros(2))
    actions = unit(subject.act(observations(8192)))

    # A normal number of deviation 0.5, cut at +-1 (about two deviations): its quartiles do not move.
    quartiles = torch.quantile(noise, torch.tensor([0.25, 0.75]), dim=0)
    torch.testing.assert_close(quartiles, 0.5 * 0.67449 * torch.tensor([[-1.0] * 2, [1.0] * 2]), atol=0.025, rtol=0)
    assert 0.01 < float((actions.abs() > 1 - 1e-5).float().mean()) < 0.09


def test_noise_scales_of_td3_change_only_for_rows_that_start_an_episode() -> None:
    subject = learner(TD3)
    before = tensors(subject)["exploration/scale"]

    subject.act(observations())
    subject.update(0)
    assert torch.equal(tensors(subject)["exploration/scale"], before)
    subject.start_episodes(torch.tensor([False, True, True, False]))

    after = tensors(subject)["exploration/scale"]
    assert (after != before).flatten().tolist() == [False, True, True, False]


def test_rows_of_flashsac_that_start_an_episode_drop_their_noise() -> None:
    subject = learner(FLASHSAC)
    subject.act(observations())
    load(subject, {"exploration/remaining": torch.full((4,), 9)})
    held = subject.act(observations()).clone()

    subject.start_episodes(torch.tensor([False, True, True, False]))

    assert (subject.act(observations()) == held).all(dim=1).tolist() == [True, False, False, True]


def test_starting_episodes_changes_nothing_of_sac() -> None:
    subject, other = learner(SAC), learner(SAC)

    subject.start_episodes(torch.tensor([True, True, False, False]))

    assert torch.equal(subject.act(observations()), other.act(observations()))
