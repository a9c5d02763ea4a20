"""Sums over finished episodes, kept on the device and drained once an iteration."""

from dataclasses import dataclass

import torch
from torch import Tensor

from domain.managers.state import Stateful


@dataclass(frozen=True, kw_only=True)
class EpisodeSummary:
    """What a drain returns: one float32 value a name, (names,); NaN where no episode has ended."""

    names: tuple[str, ...]
    values: Tensor


@dataclass(frozen=True, kw_only=True)
class FinishedEpisodes:
    """What the environment knows of the rows under ``mask`` when they end; all (num_envs,) unless said."""

    mask: Tensor
    length: Tensor
    """Control steps really taken."""
    reward_sums: Tensor
    """(num_envs, reward terms): weight times value, summed over steps, without dt."""
    returns: Tensor
    """Undiscounted sum of step rewards."""
    fired: Tensor
    """(num_envs, termination terms) bool."""
    metrics: Tensor
    """(num_envs, metrics): command metrics, then metric terms."""


_LENGTH = 1
"""Column of the episodes' lengths, whose sum is the number of steps."""


class EpisodeLog(Stateful):
    """Means over the episodes that ended since the last drain.

    ``episode/return`` and ``episode/length`` are means over episodes, ``reward/<term>`` is a mean over
    their steps, ``termination/<term>`` is a share of episodes, ``metric/...`` a mean over episodes.
    """

    def __init__(
        self, rewards: tuple[str, ...], terminations: tuple[str, ...], metrics: tuple[str, ...], device: torch.device
    ) -> None:
        super().__init__()
        self._names = (
            "episode/return",
            "episode/length",
            *(f"reward/{name}" for name in rewards),
            *(f"termination/{name}" for name in terminations),
            *(f"metric/{name}" for name in metrics),
        )
        self._per_step = torch.zeros(len(self._names), dtype=torch.bool, device=device)
        self._per_step[2 : 2 + len(rewards)] = True
        self._sums = self.keep("sums", torch.zeros(len(self._names), device=device))
        self._episodes = self.keep("episodes", torch.zeros((), device=device))

    def add(self, finished: FinishedEpisodes) -> None:
        """Add the rows under ``finished.mask``."""
        ends = (finished.returns.unsqueeze(1), finished.length.unsqueeze(1))
        # The lengths and flags become float32 beside the others.
        columns = torch.cat((*ends, finished.reward_sums, finished.fired, finished.metrics), dim=1)
        rows = finished.mask.unsqueeze(1)
        self._sums += torch.where(rows, columns, 0.0).sum(dim=0)
        self._episodes += finished.mask.sum()

    def drain(self) -> EpisodeSummary:
        """Return the means and the number of episodes (``episode/count``), and start anew."""
        steps = self._sums[_LENGTH]
        means = self._sums / torch.where(self._per_step, steps, self._episodes)
        summary = EpisodeSummary(
            names=(*self._names, "episode/count"), values=torch.cat((means, self._episodes.unsqueeze(0)))
        )
        for tensor in (self._sums, self._episodes):
            tensor.zero_()
        return summary
