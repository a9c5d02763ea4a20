"""The replay ring: packed rows on the learner's device, and how a chunk of them gets there.

Nothing here reads the device; each method is a fixed number of operations on storage that never moves, so all of it
can be captured. Row number s of all rows ever written lies at ``s % capacity``; the next of its environment is
``s + num_envs``.
"""

from typing import Final

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout


class ReplayRing:
    """Storage for ``capacity`` rows, and counters of it on the device.

    ``rows`` (capacity, width) float32, ``committed`` how many rows were ever written, ``size`` how many are there;
    both 0-dim int64.

    Args:
        layout: Of a row.
        num_envs: Rows of a chunk.
        capacity: Rows that are kept.
        device: The learner's.

    Raises:
        ConfigurationError: A chunk does not fit.
    """

    def __init__(self, layout: RowLayout, num_envs: int, capacity: int, device: torch.device) -> None:
        if not 1 <= num_envs <= capacity:
            raise ConfigurationError(
                f"the replay keeps {capacity} rows and a step of {num_envs} environments brings as many at once: "
                "keep at least the rows of one step"
            )
        self.rows: Final = torch.zeros(capacity, layout.width, device=device)
        self.committed: Final = torch.zeros((), dtype=torch.int64, device=device)
        self.size: Final = torch.zeros_like(self.committed)
        self._places = torch.arange(num_envs, device=device)
        self._ends = torch.zeros(num_envs, device=device)

    def add(self, rows: Tensor, valid: Tensor) -> None:
        """Write a chunk, (num_envs, width), behind the newest rows.

        A row that is not ``valid``, (num_envs,), gives its place to a valid one of the chunk, and no sample of several
        steps runs across that place. A chunk without a valid row is passed over.
        """
        kept = valid > 0
        self._cut(kept)
        places, count, some = self._places, len(self._places), kept.any()
        first = torch.where(kept, places, count - 1).amin()
        before = torch.where(kept, places, -1).cummax(dim=0).values
        donors = torch.where(before < 0, first, before)
        chunk = rows.index_select(0, donors)
        chunk[:, -1] = torch.where(kept, chunk[:, -1], 1.0)
        targets = (self.committed + places) % len(self.rows)
        self.rows.index_copy_(0, targets, torch.where(some, chunk, self.rows.index_select(0, targets)))
        self.committed.add_(some * count)
        torch.clamp(self.committed, max=len(self.rows), out=self.size)

    def clear(self) -> None:
        """Forget all rows."""
        self.committed.zero_()
        self.size.zero_()

    def _cut(self, kept: Tensor) -> None:
        """Mark the newest row of every environment that is not ``kept`` as truncated: it bootstraps as it stands."""
        newest = (self.committed - len(self._places) + self._places) % len(self.rows)
        truncated = self.rows[:, -1]
        ends = truncated.index_select(0, newest)
        torch.where(kept | (self.committed == 0), ends, torch.ones_like(ends), out=self._ends)
        truncated.index_copy_(0, newest, self._ends)
