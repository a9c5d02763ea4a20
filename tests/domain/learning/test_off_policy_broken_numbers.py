"""A number that is not finite costs its own step, and nothing after it."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from domain.learning.config import OffPolicyCfg
from domain.learning.learner import Learner
from tests.support.learners import ALGORITHMS, FULL, SMALL, learner, random_batches, tensors, trained


def broken_first_batch(cfg: OffPolicyCfg) -> Learner:
    """Return a learner that has done one good cycle, and whose batch 0 now holds a reward that is not a number."""
    bound = random_batches(cfg)
    subject = learner(cfg, batches=bound)
    subject.update(0)
    bound[0].reward[0, 3] = torch.nan
    return subject


def of_the_critic(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights, moments and steps of critics, and the targets' weights; not running statistics."""
    weights = trained(state, "critic")
    return (
        {name: value for name, value in state.items() if name.startswith("critic_optimizer/")}
        | {f"critic/{name}": value for name, value in weights.items()}
        | {f"target/{name}": state[f"target/{name}"] for name in weights}
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_reward_that_is_not_a_number_leaves_critics_targets_moments_and_counts_as_they_were(algorithm: str) -> None:
    subject = broken_first_batch(replace(FULL[algorithm], updates_per_step=1))
    before = of_the_critic(tensors(subject))

    metrics = subject.update(0)

    after = of_the_critic(tensors(subject))
    assert metrics["critic_loss"].isnan()
    # Norms that are kept anyway may round once more; all else keeps every bit.
    tolerance = 1e-6 if algorithm == "flashsac" else 0.0
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, atol=tolerance, rtol=0, msg=name)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learning_goes_on_with_the_next_batch(algorithm: str) -> None:
    subject = broken_first_batch(replace(FULL[algorithm], updates_per_step=1))
    subject.update(0)
    before = tensors(subject)

    metrics = subject.update(1)

    after = tensors(subject)
    assert all(torch.isfinite(value) for value in metrics.values())
    assert all(torch.isfinite(value).all() for value in after.values())
    assert after["critic_optimizer/step"] == before["critic_optimizer/step"] + 1 == 2.0
    assert not torch.equal(after["critic/head.weight"], before["critic/head.weight"])
    assert not torch.equal(after["target/head.weight"], before["target/head.weight"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_other_update_of_the_same_cycle_is_done(algorithm: str) -> None:
    subject = broken_first_batch(SMALL[algorithm])

    subject.update(0)

    state = tensors(subject)
    assert state["critic_optimizer/step"] == 3.0  # of four
    assert state["actor_optimizer/step"] == 2.0  # the actor learns without rewards
    assert all(torch.isfinite(value).all() for value in state.values())
    assert subject.policy_version == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_first_cycle_that_breaks_leaves_a_learner_like_new(algorithm: str) -> None:
    cfg = replace(SMALL[algorithm], updates_per_step=1)
    bound = random_batches(cfg)
    bound[0].reward.fill_(torch.nan)
    subject = learner(cfg, batches=bound)
    before = of_the_critic(tensors(subject))

    subject.update(0)

    after = of_the_critic(tensors(subject))
    assert after["critic_optimizer/step"] == 0.0
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, atol=1e-6, rtol=0, msg=name)
