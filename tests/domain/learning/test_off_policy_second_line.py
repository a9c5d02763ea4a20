"""What is no number, and what does not fit, stays outside: the second line of defence behind the environment."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from domain.errors import ConfigurationError, DataError
from domain.learning.policy import ActionBounds
from domain.learning.reward_scaling import RewardScaler
from tests.support.learners import ALGORITHMS, FULL, PLAN, SMALL, learner, observations, random_batches, tensors


@pytest.mark.parametrize("column", ["obs", "next_obs", "critic_obs", "next_critic_obs", "action"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_row_that_is_no_number_leaves_nothing_broken(algorithm: str, bad: float, column: str) -> None:
    cfg = FULL[algorithm]
    batches = random_batches(cfg)
    subject = learner(cfg, batches=batches)
    field = getattr(batches[0].columns, column)
    right = field[0, 3].clone()
    field[0, 3] = bad
    subject.update(0)
    field[0, 3] = right

    broken = [name for name, tensor in tensors(subject).items() if not bool(torch.isfinite(tensor).all())]
    actions = subject.act(observations())
    metrics = {name: float(value) for name, value in subject.update(0).items()}

    assert broken == []
    assert bool(torch.isfinite(actions).all())
    assert all(map(math.isfinite, metrics.values())), metrics


def test_a_broken_reward_of_a_broken_row_does_not_reach_the_scale() -> None:
    scaler, right = (RewardScaler(2, 0.97, 5.0, torch.device("cpu")) for _ in range(2))
    live = torch.tensor([False, False])
    only_first = torch.tensor([True, False])

    scaler.observe(torch.tensor([1.0, math.nan]), live, only_first)
    scaler.observe(torch.tensor([2.0, math.inf]), live)
    right.observe(torch.tensor([1.0, 0.0]), live, only_first)
    right.observe(torch.tensor([2.0, 0.0]), live, only_first)

    assert bool(torch.isfinite(scaler.denominator))
    assert torch.equal(scaler.denominator, right.denominator)
    assert torch.equal(scaler.returns, right.returns)


@pytest.mark.parametrize("shape", [(4, 3), (4, 6), (5,), (2, 4, 5), ()])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_observations_of_another_width_are_refused_in_both_modes(algorithm: str, shape: tuple[int, ...]) -> None:
    subject = learner(FULL[algorithm])

    for deterministic in (True, False):
        with pytest.raises(ConfigurationError, match="observations of shape"):
            subject.act(torch.zeros(shape), deterministic=deterministic)


@pytest.mark.parametrize("algorithm", ["sac", "flashsac"])
def test_an_actor_alone_refuses_narrow_observations_too(algorithm: str) -> None:
    actor = learner(SMALL[algorithm]).actor

    with pytest.raises(RuntimeError):
        actor(torch.zeros(4, 3))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_learner_is_not_copied_in_silence(algorithm: str) -> None:
    with pytest.raises(ConfigurationError, match="load its state_dict"):
        copy.deepcopy(learner(FULL[algorithm]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_copy_of_the_actor_carries_its_bounds_along(algorithm: str) -> None:
    subject = learner(FULL[algorithm], plan=replace(PLAN, action_low=(-2.0, 0.0), action_high=(0.5, 3.0)))
    twin = copy.deepcopy(subject.actor)

    assert torch.equal(twin(observations()), subject.act(observations(), deterministic=True))
    names = twin.state_dict().keys()
    assert any(name.endswith("bounds.scale") for name in names)
    assert all(tensor.device.type == "meta" for tensor in twin.to("meta").state_dict().values())


def test_an_action_never_leaves_its_bounds_by_a_rounding() -> None:
    low, high = (torch.rand(20_000, generator=torch.Generator().manual_seed(s)).tolist() for s in (0, 1))
    bounds = ActionBounds(tuple(low), tuple(a + b for a, b in zip(low, high, strict=True)))

    for unit in (-1.0, 1.0):
        action = bounds(torch.full((20_000,), unit))
        assert bool((action >= bounds.low).all())
        assert bool((action <= bounds.high).all())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_metrics_of_the_actor_are_none_before_its_first_turn(algorithm: str) -> None:
    subject = learner(replace(FULL[algorithm], updates_per_step=1, policy_frequency=2))
    state = subject.state_dict()
    state["counters"] = {"updates": 1, "policy_version": 1}
    subject.load_state_dict(state)

    assert math.isnan(float(subject.update(0)["actor_loss"]))
    assert math.isfinite(float(subject.update(1)["actor_loss"]))


@pytest.mark.parametrize("saved", [None, [], "sac", 3])
def test_a_payload_that_is_no_table_is_refused(saved: object) -> None:
    with pytest.raises(DataError, match="is a table"):
        learner(FULL["sac"]).load_state_dict(saved)  # type: ignore[arg-type]
