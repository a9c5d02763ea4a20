"""FlashSAC's figures: parameters, first losses, norms, temperature, rates, and what its statistics follow."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from domain.learning.config import FlashSacCfg
from tests.support.learners import (
    FLASHSAC,
    PLAN,
    learner,
    load,
    observations,
    plan_of,
    random_batches,
    tensors,
    trained,
)

WIDE = plan_of(29, obs=100, critic=103, num_envs=1)
ONE = replace(FLASHSAC, updates_per_step=1)


@pytest.mark.parametrize(("atoms", "critics"), [(101, 2_227_930), (501, 2_227_930 + 2 * 400 * 257)])
def test_parameter_counts_of_the_specification(atoms: int, critics: int) -> None:
    state = tensors(learner(FlashSacCfg(atoms=atoms, batch_size=2, updates_per_step=1), plan=WIDE))

    assert sum(value.numel() for value in trained(state, "actor").values()) == 285_314
    assert sum(value.numel() for value in trained(state, "critic").values()) == critics


@pytest.mark.parametrize("expansion", [1, 2, 4])
def test_blocks_widen_as_often_as_asked_for(expansion: int) -> None:
    state = tensors(learner(replace(FLASHSAC, expansion=expansion)))

    assert state["actor/blocks.0.expand.weight"].shape == (8 * expansion, 8)
    assert state["critic/blocks.1.contract.weight"].shape == (2, 8, 8 * expansion)


def test_the_first_critic_loss_is_about_5() -> None:
    # Width and batch of the pendulum's check; the mean over both critics.
    cfg = replace(ONE, atoms=101, batch_size=128, actor_width=32, critic_width=32)

    assert 4.9 < learner(cfg).update(0)["critic_loss"] < 5.2


@pytest.mark.parametrize("atoms", [101, 501])
def test_uniform_critics_lose_the_logarithm_of_the_atoms(atoms: int) -> None:
    subject = learner(replace(ONE, atoms=atoms))
    load(subject, {"critic/head.weight": torch.zeros_like(tensors(subject)["critic/head.weight"])})

    loss = subject.update(0)["critic_loss"]

    torch.testing.assert_close(loss, torch.tensor(math.log(atoms)), atol=1e-5, rtol=0)


def norms(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the norms of everything that keeps one, over the norm to keep: batch norms' gains and shifts as one."""
    found = {}
    for part in ("actor", "critic"):
        weights = trained(state, part)
        for name, value in weights.items():
            root = name.removesuffix(".weight")
            if root == name:
                continue
            if root.endswith("norm"):
                shift = weights.get(f"{root}.bias", torch.zeros_like(value))
                found[f"{part}/{root}"] = torch.cat((value, shift), dim=-1).norm(dim=-1) / value.shape[-1] ** 0.5
            else:
                found[f"{part}/{root}"] = value.norm(dim=-1)
    return found


@pytest.mark.parametrize("before", [False, True])
def test_rows_and_gains_keep_their_norms_in_every_update(before: bool) -> None:
    subject = learner(replace(ONE, policy_before_critic=before, lr_init=0.01, lr_end=0.01))
    start = tensors(subject)

    for slot in (0, 1, 0, 1):
        subject.update(slot)
        state = tensors(subject)
        found = norms(state)
        # Input norm, embedding, four of each of two blocks, output norm and head, in actor and critics.
        assert len(found) == 2 * 12
        for name, value in found.items():
            torch.testing.assert_close(value, torch.ones_like(value), atol=1e-5, rtol=0, msg=name)
    assert not torch.equal(state["critic/norm.bias"], start["critic/norm.bias"])


def test_biases_of_heads_are_free_and_start_at_0() -> None:
    subject = learner(replace(FLASHSAC, lr_init=0.01, lr_end=0.01))
    assert torch.equal(tensors(subject)["critic/head.bias"], torch.zeros(2, 11))

    subject.update(0)

    assert 0.0 < tensors(subject)["critic/head.bias"].norm() < 0.1


@pytest.mark.parametrize(("actions", "target"), [(29, -13.86726), (12, -5.73818)])
def test_the_target_entropy_is_that_of_the_specification(actions: int, target: float) -> None:
    metrics = learner(ONE, plan=plan_of(actions)).update(0)

    found = metrics["entropy"] - metrics["alpha_loss"] / metrics["alpha"]
    torch.testing.assert_close(found, torch.tensor(target), atol=1e-5, rtol=0)


def test_temperature_of_the_specification_falls() -> None:
    # Wider bounds raise the entropy by log(bound) for each of 29 actions: to -5.
    entropy = float(learner(ONE, plan=plan_of(29)).update(0)["entropy"])
    subject = learner(ONE, plan=plan_of(29, bound=math.exp((-5.0 - entropy) / 29)))

    metrics = subject.update(0)

    state = tensors(subject)
    torch.testing.assert_close(metrics["entropy"], torch.tensor(-5.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(metrics["alpha"], torch.tensor(0.01))
    torch.testing.assert_close(metrics["alpha_loss"], torch.tensor(0.0886726), atol=1e-5, rtol=0)
    torch.testing.assert_close(state["alpha_optimizer/exp_avg/log_alpha"] / 0.1, metrics["alpha_loss"])
    torch.testing.assert_close(state["log_alpha"], torch.tensor(math.log(0.01) - 3e-4), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("step", "rate"), [(125_000, 2.780330e-4), (250_000, 2.25e-4), (500_000, 1.5e-4)])
def test_each_rate_follows_the_optimiser_s_own_steps(step: int, rate: float) -> None:
    subject = learner(ONE)
    load(subject, {"alpha_optimizer/step": torch.tensor(float(step)), "log_alpha": torch.tensor(0.0)})

    subject.update(0)

    # Late in a run a first gradient g moves by rate * 0.1 g / sqrt(0.001 g^2).
    moved = tensors(subject)["log_alpha"].abs()
    torch.testing.assert_close(moved, torch.tensor(rate * 0.1 / 0.001**0.5), rtol=1e-3, atol=0)


def test_actor_and_temperature_learn_in_the_same_turns() -> None:
    subject = learner(replace(FLASHSAC, updates_per_step=3, policy_frequency=2))

    for slot, steps in ((0, 2.0), (1, 3.0)):
        subject.update(slot)
        state = tensors(subject)
        assert state["actor_optimizer/step"] == state["alpha_optimizer/step"] == steps


def test_the_target_critic_has_running_statistics_of_its_own_that_are_not_averaged() -> None:
    subject = learner(replace(ONE, tau=1.0))
    load(subject, {"target/norm.running_mean": torch.full((2, 9), 50.0)})

    subject.update(0)

    state = tensors(subject)
    # 0.99 * 50, and a hundredth of a batch's mean; the critic's own were 0 before.
    torch.testing.assert_close(state["target/norm.running_mean"], torch.full((2, 9), 49.5), atol=0.02, rtol=0)
    torch.testing.assert_close(state["critic/norm.running_mean"], torch.zeros(2, 9), atol=0.02, rtol=0)


def test_acting_uses_running_statistics_and_leaves_them_alone() -> None:
    subject = learner(FLASHSAC)
    subject.update(0)
    before = tensors(subject)
    obs = observations()

    together = subject.act(obs, deterministic=True)
    alone = torch.cat([subject.act(row[None], deterministic=True) for row in obs])
    subject.act(obs)

    torch.testing.assert_close(together, alone)
    after = tensors(subject)
    assert all(torch.equal(before[name], after[name]) for name in before if "running" in name)


@pytest.mark.parametrize("part", ["actor", "critic", "target"])
def test_statistics_of_one_update_are_those_of_this_and_the_next_step_together(part: str) -> None:
    bound = random_batches(ONE)
    subject = learner(ONE, batches=bound)

    subject.update(0)

    columns = bound[0].columns
    here, after = (columns.obs, columns.next_obs) if part == "actor" else (columns.critic_obs, columns.next_critic_obs)
    rows = torch.cat((here[0], after[0]))
    state = tensors(subject)
    # A critic's action columns come last; rows are the same for both critics.
    for statistic, batch in (("mean", rows.mean(dim=0)), ("var", 99.0 + rows.var(dim=0))):
        found = state[f"{part}/norm.running_{statistic}"][..., : rows.shape[1]]
        torch.testing.assert_close(found, (0.01 * batch).expand_as(found), atol=1e-6, rtol=1e-4)


def test_the_actor_follows_the_lower_critic() -> None:
    # Heads of zero but for the biases: critic 1 is sure of 5, critic 2 of -5. Rate and temperature are next to nothing.
    subject = learner(replace(ONE, lr_init=1e-12, lr_end=1e-12, alpha_init=1e-12))
    bias = torch.zeros(2, 11)
    bias[0, -1] = bias[1, 0] = 60.0
    weight = torch.zeros_like(tensors(subject)["critic/head.weight"])
    load(subject, {"critic/head.weight": weight, "critic/head.bias": bias})

    torch.testing.assert_close(subject.update(0)["actor_loss"], torch.tensor(5.0), atol=1e-4, rtol=0)


def test_both_critics_learn_from_the_lower_next_distribution() -> None:
    # Target critic 1 is sure of 3, target critic 2 of -1; rewards are 0, nothing is discounted, no temperature.
    cfg = replace(ONE, alpha_init=1e-12)
    bound = random_batches(cfg)
    bound[0].reward.zero_()
    bound[0].discount.fill_(1.0)
    subject = learner(cfg, batches=bound)
    bias = torch.zeros(2, 11)
    bias[0, 8] = bias[1, 4] = 60.0
    weight = torch.zeros_like(tensors(subject)["target/head.weight"])
    load(subject, {"target/head.weight": weight, "target/head.bias": bias})

    torch.testing.assert_close(subject.update(0)["target_value"], torch.tensor(-1.0), atol=1e-5, rtol=0)


def test_a_policy_that_learns_first_gives_the_critics_its_new_actions() -> None:
    first, last = learner(replace(ONE, policy_before_critic=True)), learner(ONE)
    first.update(0)
    last.update(0)
    before, after = tensors(first), tensors(last)

    # Either way the actor saw the same critics' first weights only where it learnt before them.
    assert not torch.equal(before["critic/head.bias"], after["critic/head.bias"])
    assert not torch.equal(before["actor/head.bias"], after["actor/head.bias"])


def test_first_deterministic_actions_depend_on_the_observation_and_lie_in_the_bounds() -> None:
    plan = replace(PLAN, action_low=(-1.0, 0.5), action_high=(3.0, 0.75))
    actions = learner(FLASHSAC, plan=plan).act(observations(64), deterministic=True)

    assert (actions.std(dim=0) > 0.0).all()
    assert (actions > torch.tensor([-1.0, 0.5])).all()
    assert (actions < torch.tensor([3.0, 0.75])).all()
