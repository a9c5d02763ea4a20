"""SAC's figures: parameters, first losses, first actions, temperature."""

import math
from dataclasses import replace

import pytest
import torch

from domain.learning.config import SacCfg
from tests.support.learners import PLAN, SAC, learner, load, observations, plan_of, random_batches, tensors, trained

WIDE = plan_of(29, obs=100, critic=103, num_envs=1)
ONE = replace(SAC, updates_per_step=1)


@pytest.mark.parametrize(("atoms", "critics"), [(101, 987_082), (501, 1_141_482)])
def test_parameter_counts_of_the_specification(atoms: int, critics: int) -> None:
    cfg = SacCfg(atoms=atoms, batch_size=2, updates_per_step=1)
    state = tensors(learner(cfg, plan=WIDE))

    assert sum(value.numel() for value in trained(state, "actor").values()) == 225_210
    assert sum(value.numel() for value in trained(state, "critic").values()) == critics


@pytest.mark.parametrize("atoms", [101, 501])
def test_the_first_critic_loss_is_a_little_above_that_of_uniform_critics(atoms: int) -> None:
    # SiLU of a normal number has mean square 0.36, so weights uniform within 1/sqrt(inputs) make logits of variance
    # 0.12, and each of two critics loses half of that beside the logarithm.
    cfg = replace(ONE, atoms=atoms, batch_size=256, critic_hidden=(768, 384, 192))

    loss = learner(cfg).update(0)["critic_loss"]

    torch.testing.assert_close(loss, torch.tensor(2 * math.log(atoms) + 0.12), atol=0.07, rtol=0)


@pytest.mark.parametrize("atoms", [101, 501])
def test_uniform_critics_lose_twice_the_logarithm_of_the_atoms(atoms: int) -> None:
    subject = learner(replace(ONE, atoms=atoms))
    heads = {name: torch.zeros_like(t) for name, t in tensors(subject).items() if name.startswith("critic/head.")}
    load(subject, heads)

    loss = subject.update(0)["critic_loss"]

    torch.testing.assert_close(loss, torch.tensor(2 * math.log(atoms)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("normalization", [False, True])
def test_the_first_deterministic_action_is_the_middle_of_the_bounds_for_every_observation(normalization: bool) -> None:
    plan = replace(PLAN, action_low=(-1.0, 0.5), action_high=(3.0, 0.75))
    subject = learner(replace(SAC, obs_normalization=normalization), plan=plan)

    actions = subject.act(100 * observations(64), deterministic=True)

    assert torch.equal(actions, torch.tensor([1.0, 0.625]).expand(64, 2))


@pytest.mark.parametrize(("ratio", "target"), [(0.5, -14.5), (0.0, 0.0), (1.0, -29.0)])
def test_the_temperature_loss_follows_the_target_entropy(ratio: float, target: float) -> None:
    cfg = replace(ONE, target_entropy_ratio=ratio, alpha_init=0.01)

    metrics = learner(cfg, plan=plan_of(29)).update(0)

    torch.testing.assert_close(metrics["alpha"], torch.tensor(0.01))
    torch.testing.assert_close(metrics["entropy"] - metrics["alpha_loss"] / metrics["alpha"], torch.tensor(target))


def test_temperature_of_the_specification_falls() -> None:
    # A mean log-density of 5 means an entropy of -5; wider bounds raise it by log(bound) for each of 29 actions.
    cfg = replace(ONE, target_entropy_ratio=0.5, alpha_init=0.01)
    entropy = float(learner(cfg, plan=plan_of(29)).update(0)["entropy"])
    subject = learner(cfg, plan=plan_of(29, bound=math.exp((-5.0 - entropy) / 29)))

    metrics = subject.update(0)

    state = tensors(subject)
    torch.testing.assert_close(metrics["entropy"], torch.tensor(-5.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(metrics["alpha_loss"], torch.tensor(0.095), atol=1e-5, rtol=0)
    # The derivative by log_alpha is the loss; Adam's first step is as long as its rate, without decay.
    gradient = state["alpha_optimizer/exp_avg/log_alpha"] / 0.1
    torch.testing.assert_close(gradient, metrics["alpha_loss"])
    torch.testing.assert_close(state["log_alpha"], torch.tensor(math.log(0.01) - 3e-4), atol=1e-6, rtol=0)


def test_the_temperature_rises_where_the_policy_is_narrower_than_asked_for() -> None:
    subject = learner(replace(ONE, target_entropy_ratio=0.0), plan=plan_of(29))
    before = tensors(subject)["log_alpha"]

    metrics = subject.update(0)

    assert metrics["entropy"] < 0.0
    assert tensors(subject)["log_alpha"] > before


def test_the_temperature_learns_in_every_update_and_the_actor_in_its_turn() -> None:
    subject = learner(replace(SAC, updates_per_step=4, policy_frequency=4))

    subject.update(0)

    state = tensors(subject)
    assert state["alpha_optimizer/step"] == 4.0
    assert state["actor_optimizer/step"] == 1.0


def test_the_actor_follows_the_mean_of_both_critics() -> None:
    # Heads of zero but for the biases: critic 1 is sure of 5, critic 2 of -5. The temperature is next to nothing.
    subject = learner(replace(ONE, critic_lr=1e-12, alpha_init=1e-12))
    bias = torch.zeros(2, 11)
    bias[0, -1] = bias[1, 0] = 60.0
    weight = torch.zeros_like(tensors(subject)["critic/head.weight"])
    load(subject, {"critic/head.weight": weight, "critic/head.bias": bias})

    loss = subject.update(0)["actor_loss"]

    torch.testing.assert_close(loss, torch.tensor(0.0), atol=1e-5, rtol=0)


def test_statistics_of_observations_are_those_of_both_ends_of_all_rows_of_the_cycle() -> None:
    cfg = replace(SAC, obs_normalization=True)
    bound = random_batches(cfg)
    subject = learner(cfg, batches=bound)

    subject.update(0)

    state, columns = tensors(subject), bound[0].columns
    for name, here, after in (
        ("actor", columns.obs, columns.next_obs),
        ("critic", columns.critic_obs, columns.next_critic_obs),
    ):
        rows = torch.cat((here, after)).flatten(0, 1)
        torch.testing.assert_close(state[f"{name}_normalizer/mean"], rows.mean(dim=0))
        torch.testing.assert_close(state[f"{name}_normalizer/var"], rows.var(dim=0, correction=0))
        assert state[f"{name}_normalizer/count"] == 64.0
