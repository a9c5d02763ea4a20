"""Small learners of every algorithm on the CPU, their batches, and their payloads taken apart."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from domain.learning.config import ExecutionCfg, FlashSacCfg, OffPolicyCfg, SacCfg, Td3Cfg
from domain.learning.flashsac import FlashSacLearner
from domain.learning.learner import Learner, LearnerPlan
from domain.learning.sac import SacLearner
from domain.learning.td3 import Td3Learner
from domain.replay.batch import TransitionBatch
from domain.replay.layout import RowLayout

CPU = torch.device("cpu")
EAGER = ExecutionCfg()
Batches = tuple[TransitionBatch, TransitionBatch]

# Few units, and widths that are no multiple of 8 where a network may pad: inputs 5 and 9, outputs 4 and 11.
SAC = SacCfg(
    batch_size=16,
    updates_per_step=2,
    policy_frequency=2,
    replay_rows=1000,
    learning_start_rows=16,
    atoms=11,
    v_min=-5.0,
    v_max=5.0,
    actor_hidden=(16, 8),
    critic_hidden=(16, 8),
    target_entropy_ratio=0.5,
)
TD3 = Td3Cfg(
    batch_size=16,
    updates_per_step=2,
    policy_frequency=2,
    replay_rows=1000,
    learning_start_rows=16,
    atoms=11,
    v_min=-5.0,
    v_max=5.0,
    actor_hidden=(16, 8),
    critic_hidden=(16, 8),
)
FLASHSAC = FlashSacCfg(
    batch_size=16,
    updates_per_step=2,
    policy_frequency=2,
    replay_rows=1000,
    learning_start_rows=16,
    atoms=11,
    actor_width=8,
    critic_width=8,
)
SMALL: dict[str, OffPolicyCfg] = {cfg.kind: cfg for cfg in (SAC, TD3, FLASHSAC)}
ALGORITHMS = tuple(SMALL)
# With everything that a payload may hold: TD3 normalises observations by default, FlashSAC never.
FULL: dict[str, OffPolicyCfg] = {**SMALL, "sac": replace(SAC, obs_normalization=True)}

PLAN = LearnerPlan(
    layout=RowLayout(obs=5, action=2, critic=7),
    num_envs=4,
    action_low=(-1.0, -1.0),
    action_high=(1.0, 1.0),
    device=CPU,
    seed=1,
)


def plan_of(actions: int, *, obs: int = 5, critic: int = 7, num_envs: int = 4, bound: float = 1.0) -> LearnerPlan:
    """Return a plan with ``actions`` actions in [-bound, bound]."""
    layout = RowLayout(obs=obs, action=actions, critic=critic)
    low, high = (-bound,) * actions, (bound,) * actions
    return replace(PLAN, layout=layout, num_envs=num_envs, action_low=low, action_high=high)


def random_batches(cfg: OffPolicyCfg, layout: RowLayout = PLAN.layout, seed: int = 0) -> Batches:
    """Return two random batches; an eighth of their rows is terminal."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (TransitionBatch(layout, cfg.updates_per_step, cfg.batch_size, CPU) for _ in range(2))
    for batch in (first, second):
        batch.rows.normal_(generator=generator)
        batch.columns.action.uniform_(-1.0, 1.0, generator=generator)
        batch.reward.normal_(generator=generator)
        batch.discount.fill_(cfg.gamma)[:, ::8] = 0.0
    return first, second


def learner(
    cfg: OffPolicyCfg,
    *,
    plan: LearnerPlan = PLAN,
    batches: Batches | None = None,
    execution: ExecutionCfg = EAGER,
) -> Learner:
    """Return a learner by its settings, on random batches where none are given."""
    bound = random_batches(cfg, plan.layout) if batches is None else batches
    if isinstance(cfg, SacCfg):
        return SacLearner(cfg, plan, bound, execution)
    if isinstance(cfg, Td3Cfg):
        return Td3Learner(cfg, plan, bound, execution)
    if isinstance(cfg, FlashSacCfg):
        return FlashSacLearner(cfg, plan, bound, execution)
    raise TypeError(cfg)


def observations(rows: int = PLAN.num_envs, width: int = PLAN.layout.obs, seed: int = 5) -> Tensor:
    """Return random observations, (rows, width)."""
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def part(state: Mapping[str, object], entry: str) -> dict[str, object]:
    """Return a copy of a table of a payload."""
    return dict(cast(Mapping[str, object], state[entry]))


def tensors(source: Learner | Mapping[str, object]) -> dict[str, Tensor]:
    """Return the tensors of a payload, or copies of a learner's."""
    state = source if isinstance(source, Mapping) else source.state_dict()
    return dict(cast(Mapping[str, Tensor], state["tensors"]))


def load(target: Learner, values: Mapping[str, Tensor], *, updates: int = 0) -> None:
    """Load a learner's own payload with some tensors, and its number of updates, exchanged."""
    state = target.state_dict()
    own = tensors(state)
    assert values.keys() <= own.keys()
    counters = {**part(state, "counters"), "updates": updates}
    target.load_state_dict({**state, "tensors": own | dict(values), "counters": counters})


def changed(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> set[str]:
    """Return the names whose tensors differ in any bit that counts; a NaN always does."""
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def trained(source: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return what an optimiser of ``part`` moves, by name below it."""
    prefix = f"{part}_optimizer/exp_avg/"
    return {
        name.removeprefix(prefix): source[f"{part}/{name.removeprefix(prefix)}"]
        for name in source
        if name.startswith(prefix)
    }
