"""Rows that went wrong: counted on the device, with the last env and step of each source."""

from dataclasses import dataclass

import torch
from torch import Tensor

from domain.managers.state import Stateful, put


@dataclass(frozen=True, kw_only=True)
class FaultReport:
    """What a drain returns; tensors are int64 of shape (sources,), one entry a source name."""

    sources: tuple[str, ...]
    counts: Tensor
    rows: Tensor
    """Env of the last fault; meaningful where the count is above zero."""
    steps: Tensor
    """Global step of the last fault."""


class FaultLog(Stateful):
    """Counters by source: the physics, each reward term, each observation group, stray writes."""

    def __init__(self, sources: tuple[str, ...], device: torch.device) -> None:
        super().__init__()
        self._sources = sources
        self._counts, self._rows, self._steps = (
            self.keep(name, torch.zeros(len(sources), dtype=torch.int64, device=device))
            for name in ("counts", "rows", "steps")
        )

    def record(self, bad: Tensor, step: Tensor) -> None:
        """Count rows.

        Args:
            bad: (num_envs, sources) bool.
            step: 0-d int64, the global step.
        """
        any_bad = bad.any(dim=0)
        self._counts += bad.sum(dim=0)
        put(self._rows, any_bad, bad.int().argmax(dim=0))
        put(self._steps, any_bad, step)

    def drain(self) -> FaultReport:
        """Return the counts since the last drain and start anew."""
        report = FaultReport(
            sources=self._sources, counts=self._counts.clone(), rows=self._rows.clone(), steps=self._steps.clone()
        )
        self._counts.zero_()
        return report
