"""TD3's figures: parameters, first losses and actions, noise, and which critic the actor follows."""

import math
from dataclasses import replace

import pytest
import torch

from domain.learning.config import Td3Cfg
from tests.support.learners import PLAN, TD3, learner, load, observations, plan_of, random_batches, tensors, trained

WIDE = plan_of(29, obs=100, critic=103, num_envs=1)
ONE = replace(TD3, updates_per_step=1)


@pytest.mark.parametrize(("atoms", "critics"), [(101, 1_636_554), (501, 1_636_554 + 2 * 400 * 257)])
def test_parameter_counts_of_the_specification(atoms: int, critics: int) -> None:
    state = tensors(learner(Td3Cfg(atoms=atoms, batch_size=2, updates_per_step=1), plan=WIDE))

    assert sum(value.numel() for value in trained(state, "actor").values()) == 219_677
    assert sum(value.numel() for value in trained(state, "critic").values()) == critics


@pytest.mark.parametrize("atoms", [101, 501])
def test_the_first_critic_loss_is_a_little_above_that_of_uniform_critics(atoms: int) -> None:
    # Widths of the pendulum's check.
    cfg = replace(ONE, atoms=atoms, batch_size=64, actor_hidden=(128, 64, 32), critic_hidden=(256, 128, 64))

    loss = learner(cfg).update(0)["critic_loss"]

    assert 2 * math.log(atoms) - 0.01 < loss < 2 * math.log(atoms) + 0.03


@pytest.mark.parametrize("atoms", [101, 501])
def test_uniform_critics_lose_twice_the_logarithm_of_the_atoms(atoms: int) -> None:
    subject = learner(replace(ONE, atoms=atoms))
    heads = {name: torch.zeros_like(t) for name, t in tensors(subject).items() if name.startswith("critic/head.")}
    load(subject, heads)

    loss = subject.update(0)["critic_loss"]

    torch.testing.assert_close(loss, torch.tensor(2 * math.log(atoms)), atol=1e-5, rtol=0)


def test_the_head_of_the_actor_starts_with_deviation_a_hundredth_and_no_bias() -> None:
    state = tensors(learner(Td3Cfg(batch_size=2, updates_per_step=1), plan=WIDE))

    weight = state["actor/head.weight"]
    assert float(weight.std()) == pytest.approx(0.01, rel=0.05)
    assert float(weight.mean()) == pytest.approx(0.0, abs=0.001)
    assert torch.equal(state["actor/head.bias"], torch.zeros(29))


def test_first_deterministic_actions_are_near_the_middle_of_the_bounds() -> None:
    subject = learner(TD3, plan=replace(PLAN, action_low=(-1.0, 0.5), action_high=(3.0, 0.75)))

    actions = subject.act(observations(64), deterministic=True)

    torch.testing.assert_close(actions, torch.tensor([1.0, 0.625]).expand(64, 2), atol=0.1, rtol=0)


@pytest.mark.parametrize(("clipped", "loss"), [(True, 5.0), (False, 0.0)])
def test_the_actor_follows_the_lower_critic_or_without_clipping_the_mean(clipped: bool, loss: float) -> None:
    # Heads of zero but for the biases: critic 1 is sure of 5, critic 2 of -5.
    subject = learner(replace(ONE, critic_lr=1e-12, weight_decay=0.0, clipped_double_q=clipped))
    bias = torch.zeros(2, 11)
    bias[0, -1] = bias[1, 0] = 60.0
    weight = torch.zeros_like(tensors(subject)["critic/head.weight"])
    load(subject, {"critic/head.weight": weight, "critic/head.bias": bias})

    torch.testing.assert_close(subject.update(0)["actor_loss"], torch.tensor(loss), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("clipped", "value"), [(True, -1.0), (False, 1.0)])
def test_both_critics_learn_from_the_lower_target_or_each_from_its_own(clipped: bool, value: float) -> None:
    # Target critic 1 is sure of 3, target critic 2 of -1; rewards are 0 and nothing is discounted.
    cfg = replace(ONE, clipped_double_q=clipped)
    bound = random_batches(cfg)
    bound[0].reward.zero_()
    bound[0].discount.fill_(1.0)
    subject = learner(cfg, batches=bound)
    bias = torch.zeros(2, 11)
    bias[0, 8] = bias[1, 4] = 60.0
    weight = torch.zeros_like(tensors(subject)["target/head.weight"])
    load(subject, {"target/head.weight": weight, "target/head.bias": bias})

    torch.testing.assert_close(subject.update(0)["target_value"], torch.tensor(value), atol=1e-5, rtol=0)


def test_gradients_are_clipped_and_their_norm_is_that_before() -> None:
    free, clipped = learner(replace(ONE, max_grad_norm=0.0)), learner(replace(ONE, max_grad_norm=0.01))

    norm, same = free.update(0)["critic_grad_norm"], clipped.update(0)["critic_grad_norm"]

    assert torch.equal(norm, same)
    assert norm > 0.01
    moments = [
        {name: t for name, t in tensors(subject).items() if name.startswith("critic_optimizer/exp_avg/")}
        for subject in (free, clipped)
    ]
    for name, value in moments[0].items():
        torch.testing.assert_close(moments[1][name], value * 0.01 / norm, atol=1e-9, rtol=1e-3)
