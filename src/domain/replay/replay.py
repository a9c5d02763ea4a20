"""The learner's side of the replay: staging, ring, statistics, and the two batches that a learner is bound to.

A batch is a function of the run's seed, the tick it is gathered in, and the committed rows.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from domain.learning.reward_scaling import RewardScaler
from domain.replay.batch import TransitionBatch
from domain.replay.gather import BatchGather, draw
from domain.replay.ring import ReplayRing
from domain.replay.slots import SlotPlan
from domain.rng import derive_seed


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """What the replay is built for."""

    slots: SlotPlan
    capacity: int
    """Rows."""
    updates: int
    """Of a cycle."""
    batch_size: int
    gamma: float
    """Discount of a step."""
    n_step: int
    seed: int
    """Of the run."""


class Replay:
    """Takes chunks in and gives batches out; each method but ``seed`` is device work without a host read.

    Args:
        plan: Sizes.
        device: The learner's.
        scaler: Follows rewards in the order of commits; what batches' rewards are divided by. None scales nothing.
    """

    def __init__(self, plan: ReplayPlan, device: torch.device, scaler: RewardScaler | None) -> None:
        slots = plan.slots
        self.ring: Final = ReplayRing(slots.layout, slots.num_envs, plan.capacity, device)
        self.staging: Final = torch.zeros(slots.sizes["chunk0"], device=device)
        self.batches: Final = (
            TransitionBatch(slots.layout, plan.updates, plan.batch_size, device),
            TransitionBatch(slots.layout, plan.updates, plan.batch_size, device),
        )
        self.generator: Final = torch.Generator(device=device)
        self.scaler: Final = scaler
        self._rows, self._valid = slots.chunk(self.staging)
        self._columns = slots.layout.columns(self._rows)
        self._index = torch.zeros(plan.updates * plan.batch_size, dtype=torch.int64, device=device)
        self._gather = BatchGather(
            ring=self.ring.rows, layout=slots.layout, stride=slots.num_envs, gamma=plan.gamma, n_step=plan.n_step
        )
        self._seed = plan.seed

    def take_in(self, batch: int | None) -> None:
        """Write the staged chunk to the ring; statistics see its valid rows. Then gather batch 0 or 1, or none."""
        self.ring.add(self._rows, self._valid)
        if self.scaler is not None:
            columns = self._columns
            ended = columns.terminated + columns.truncated > 0
            self.scaler.observe(columns.reward, ended, self._valid > 0)
        if batch is not None:
            self.gather(batch)

    def seed(self, tick: int) -> None:
        """Let the next sample be that of ``tick``."""
        self.generator.manual_seed(derive_seed(self._seed, f"replay/{tick}"))

    def gather(self, batch: int) -> None:
        """Sample committed rows evenly, with replacement, and fill batch 0 or 1 with them."""
        draw(self.generator, self.ring.size, self._index)
        scale: Tensor | None = None if self.scaler is None else self.scaler.denominator
        self._gather.fill(self._index, self.ring.committed, self.batches[batch], scale)
