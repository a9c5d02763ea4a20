"""What every off-policy learner offers, and what it is built for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout


@dataclass(frozen=True, kw_only=True)
class LearnerPlan:
    """The environment and machine that a learner works for.

    ``action_low`` and ``action_high`` bound each column of the environment's action, in its own units.

    Raises:
        ConfigurationError: Bounds of another length than the action, not finite, or crossed; no env.
    """

    layout: RowLayout
    num_envs: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    device: torch.device
    seed: int

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ConfigurationError(f"num_envs is {self.num_envs}: a learner acts for at least one environment")
        if not len(self.action_low) == len(self.action_high) == self.layout.action:
            raise ConfigurationError(
                f"{len(self.action_low)} lower and {len(self.action_high)} upper action bounds for "
                f"{self.layout.action} actions: give one pair an action"
            )
        for column, (low, high) in enumerate(zip(self.action_low, self.action_high, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ConfigurationError(
                    f"action {column} is bounded by [{low}, {high}]: give finite bounds, low below high"
                )


class Learner(Protocol):
    """Owns actor, critics, optimisers and the random stream ``learner``; bound to two batches at construction."""

    @property
    def actor(self) -> nn.Module:
        """Maps observations, (rows, width), to deterministic actions in env units; the only actor there is."""
        ...

    @property
    def generator(self) -> torch.Generator:
        """The stream ``learner``, on the learner's device: register it with a graph that captures ``act``."""
        ...

    @property
    def policy_version(self) -> int:
        """How many cycles of updates the actor has been through."""
        ...

    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Return actions, (rows, A), in env units; exploring ones for exactly ``num_envs`` rows. No host read."""
        ...

    def start_episodes(self, mask: Tensor) -> None:
        """Tell, before ``act``, which rows, (num_envs,) bool, begin a new episode. No host read."""
        ...

    def update(self, slot: int) -> Mapping[str, Tensor]:
        """Do one cycle of updates on batch ``slot`` (0 or 1), without a host read.

        Returns:
            Means over the cycle, 0-dim, on the device; the next call overwrites them. Where the actor had no turn,
            its values are those of its last one, and NaN before its first.
        """
        ...

    def state_dict(self) -> dict[str, object]:
        """Return copies of everything that the next update and action depend on."""
        ...

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from ``state``, of any device. Raises DataError, before anything changes, naming what differs."""
        ...
