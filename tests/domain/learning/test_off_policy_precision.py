"""Updates in bfloat16 are those in float32 up to its rounding, and everything kept stays float32."""

from dataclasses import replace

import pytest
import torch

from domain.learning.config import ExecutionCfg
from tests.support.learners import ALGORITHMS, FULL, learner, observations, tensors

NARROW = ExecutionCfg(precision="bfloat16")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_losses_agree_within_a_hundredth(algorithm: str) -> None:
    cfg = replace(FULL[algorithm], updates_per_step=1, policy_frequency=1)
    wide, narrow = learner(cfg), learner(cfg, execution=NARROW)

    exact, rounded = wide.update(0), narrow.update(0)

    torch.testing.assert_close(rounded["critic_loss"], exact["critic_loss"], rtol=0.01, atol=0)
    # Values lie in [-5, 5] and their mean may be near 0.
    torch.testing.assert_close(rounded["actor_loss"], exact["actor_loss"], rtol=0.01, atol=0.05)
    assert rounded["critic_loss"] != exact["critic_loss"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_acting_before_the_first_update_does_not_depend_on_the_precision_of_updates(algorithm: str) -> None:
    wide, narrow = learner(FULL[algorithm]), learner(FULL[algorithm], execution=NARROW)

    assert torch.equal(wide.act(observations()), narrow.act(observations()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_kept_is_float32_and_moves_by_less_than_bfloat16_could_hold(algorithm: str) -> None:
    subject = learner(FULL[algorithm], execution=NARROW)
    before = tensors(subject)

    subject.update(0)

    after = tensors(subject)
    assert {name: value.dtype for name, value in after.items()} == {n: v.dtype for n, v in before.items()}
    assert after["critic/head.weight"].dtype == torch.float32
    # Steps of 3e-4 on weights near 0.1 vanish in 8 significant bits.
    assert (after["critic/head.weight"] != before["critic/head.weight"]).float().mean() > 0.9


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_payload_does_not_depend_on_the_precision(algorithm: str) -> None:
    wide, narrow = learner(FULL[algorithm]), learner(FULL[algorithm], execution=NARROW)
    narrow.update(0)

    wide.load_state_dict(narrow.state_dict())

    assert torch.equal(wide.act(observations()), narrow.act(observations()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_loaded_payload_reaches_the_narrow_copy(algorithm: str) -> None:
    cfg = replace(FULL[algorithm], updates_per_step=1, policy_frequency=1)
    one, other = learner(cfg, execution=NARROW), learner(cfg, execution=NARROW)
    one.update(0)

    other.load_state_dict(one.state_dict())

    again, expected = other.update(1), one.update(1)
    assert all(torch.equal(again[name], value) for name, value in expected.items())
