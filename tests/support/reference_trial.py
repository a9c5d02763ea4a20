"""A learner in a random state on random rows, beside its reference in float64.

Optimisers start with moments as large as the gradients: Adam's first step from zero divides a gradient by its own
size, so that rounding near zero would decide the sign of a whole step.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from domain.learning.learner import Learner, LearnerPlan
from domain.replay.batch import TransitionBatch
from domain.replay.layout import RowLayout
from tests.support.reference_branches import recorded_gaps
from tests.support.reference_math import Rows, State

TOLERANCE = 1e-5  # absolute, and relative to the reference
OBS, CRITIC_OBS, ACTIONS, ROWS = 7, 9, 3, 32
LOW, HIGH = (-1.0, -2.0, 0.0), (1.0, 0.5, 3.0)
MOMENT = 0.03  # size of a typical gradient here
GAMMA = 0.95
CLEAR = 3e-6  # rounding moves a number between layers, or a value, by less
BROKEN_UPDATE, BROKEN_ROW = 1, 5

Bounds = tuple[Tensor, Tensor]
Batches = tuple[TransitionBatch, TransitionBatch]
Cycle = Callable[[State, Rows, Tensor, Bounds, int], tuple[State, State]]
Policy = Callable[[State, Tensor, Bounds], Tensor]


class NoiseKeepingLearner(Learner, Protocol):
    """A learner that shows the normal numbers of its last cycle."""

    @property
    def noise(self) -> Tensor:
        """Standard normal numbers, (updates, draws, rows, actions)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What varies between trials beside the learner's figures."""

    critic_obs: int = CRITIC_OBS  # 0: critics see the actor's observations
    updates: int = 4
    log_alpha: float = -2.0
    step: int = 37  # steps that each optimiser has taken before; the actor's are fewer
    not_a_number: str = ""  # field of a row that holds one: reward, obs or next_obs


def plan(conditions: Conditions) -> LearnerPlan:
    """Return a small task on the CPU whose action bounds differ by column."""
    return LearnerPlan(
        layout=RowLayout(obs=OBS, action=ACTIONS, critic=conditions.critic_obs),
        num_envs=4,
        action_low=LOW,
        action_high=HIGH,
        device=torch.device("cpu"),
        seed=3,
    )


def random_batches(conditions: Conditions, generator: torch.Generator) -> Batches:
    """Return two batches of rows that no two updates share.

    Some rows are terminal, some discounts are of several steps, some rewards lie beyond any support, and the row's
    own reward is not the batch's.
    """
    first, second = (
        TransitionBatch(plan(conditions).layout, conditions.updates, ROWS, torch.device("cpu")) for _ in range(2)
    )
    for batch in (first, second):
        columns, shape = batch.columns, batch.reward.shape
        batch.rows.normal_(generator=generator)
        low, high = torch.tensor(LOW), torch.tensor(HIGH)
        columns.action.copy_(low + (high - low) * torch.rand(*shape, ACTIONS, generator=generator))
        columns.terminated.copy_(torch.rand(shape, generator=generator) < 0.2)
        columns.truncated.copy_(torch.rand(shape, generator=generator) < 0.2)
        batch.reward.normal_(std=2.5, generator=generator)
        batch.reward[:, :2] = torch.tensor([30.0, -30.0])
        steps = torch.randint(1, 4, shape, generator=generator)
        batch.discount.copy_(GAMMA**steps * (1 - columns.terminated))
        if conditions.not_a_number:
            fields = {"reward": batch.reward, "obs": columns.obs, "next_obs": columns.next_obs}
            fields[conditions.not_a_number][BROKEN_UPDATE, BROKEN_ROW] = torch.nan
    return first, second


def differences(
    build: Callable[[Batches], NoiseKeepingLearner], reference: tuple[Cycle, Policy], conditions: Conditions
) -> list[str]:
    """Run one cycle on each of two batches, from a random state that no earlier run had.

    Draws again where the reference came so close to another branch that rounding may choose it.

    Returns:
        One line for each tensor, loss or action that is not the reference's, with the seed.
    """
    gap = 0.0
    while gap < CLEAR:
        seed = secrets.randbits(32)
        found, gap = trial(build, reference, conditions, seed)
    return [f"seed {seed}: {line}" for line in found]


def trial(
    build: Callable[[Batches], NoiseKeepingLearner],
    reference: tuple[Cycle, Policy],
    conditions: Conditions,
    seed: int,
) -> tuple[list[str], float]:
    """Return what differs with this seed, and the reference's distance from another branch."""
    cycle, policy = reference
    generator = torch.Generator().manual_seed(seed)
    batches = random_batches(conditions, generator)
    learner = build(batches)
    start = learner.state_dict()
    learner.load_state_dict({**start, "tensors": _random_tensors(_tensors(start), conditions, generator)})
    low, high = torch.tensor([LOW, HIGH], dtype=torch.float64)
    state, found = _doubles(_tensors(learner.state_dict())), []
    with recorded_gaps() as gaps:
        for slot, batch in enumerate(batches):
            losses = _doubles(learner.update(slot))
            state, means = cycle(state, _rows(batch), learner.noise.double(), (low, high), slot * conditions.updates)
            obs = torch.randn(ROWS, OBS, generator=generator)
            wanted = {**state, **means, "action": policy(state, obs.double(), (low, high))}
            got = {**_doubles(_tensors(learner.state_dict())), "action": learner.actor(obs).detach().double()}
            found += _compare(f"cycle {slot}", wanted, {**got, **{name: losses[name] for name in means}})
    return found, min(gaps, default=CLEAR)


def _tensors(saved: Mapping[str, object]) -> dict[str, Tensor]:
    tensors = saved["tensors"]
    assert isinstance(tensors, dict)
    return tensors


def _doubles(tensors: Mapping[str, Tensor]) -> State:
    return {name: value.detach().to(torch.float64, copy=True) for name, value in tensors.items()}


def _rows(batch: TransitionBatch) -> Rows:
    columns = batch.columns
    return Rows(
        obs=columns.obs.double(),
        critic_obs=columns.critic_obs.double(),
        action=columns.action.double(),
        next_obs=columns.next_obs.double(),
        next_critic_obs=columns.next_critic_obs.double(),
        reward=batch.reward.double(),
        discount=batch.discount.double(),
    )


def _compare(place: str, wanted: State, got: State) -> list[str]:
    found = [f"{place}: {name}: only one side has it" for name in sorted(wanted.keys() ^ got.keys())]
    for name in sorted(wanted.keys() & got.keys()):
        one, other = wanted[name], got[name]
        if one.shape != other.shape:
            found.append(f"{place}: {name}: {tuple(one.shape)} wanted, {tuple(other.shape)} found")
        elif not torch.allclose(one, other, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True):
            excess = (one - other).abs() / (1 + one.abs())
            found.append(f"{place}: {name}: differs by up to {float(excess.max()):.2e} of 1 + its size")
    return found


def _random_tensors(
    tensors: Mapping[str, Tensor], conditions: Conditions, generator: torch.Generator
) -> dict[str, Tensor]:
    return {name: _random_like(name, value, conditions, generator) for name, value in tensors.items()}


def _random_like(name: str, value: Tensor, conditions: Conditions, generator: torch.Generator) -> Tensor:
    """Return a tensor like ``value`` that leaves no gradient, norm or statistic at a special number."""
    if name.startswith("exploration/"):
        return value
    normal = torch.randn(value.shape, generator=generator)
    positive = 0.5 + torch.rand(value.shape, generator=generator)
    if name.endswith("_optimizer/step"):
        new = torch.full(value.shape, conditions.step // 2 if name.startswith("actor") else conditions.step)
    elif "/exp_avg/" in name:
        new = MOMENT * normal
    elif "/exp_avg_sq/" in name:
        new = MOMENT**2 * positive
    elif name == "log_alpha":
        new = conditions.log_alpha + 0.1 * normal
    elif name.endswith("normalizer/count"):
        new = torch.full(value.shape, 150)
    elif name.endswith(("running_var", "normalizer/var")):
        new = positive
    elif name.endswith(("norm.weight", "norm_weight")):
        new = 1 + 0.2 * normal
    elif name.endswith("weight"):
        new = normal / value.shape[-1] ** 0.5
    else:
        new = 0.3 * normal
    return new.to(value.dtype)
