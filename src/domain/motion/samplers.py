"""At which frame of a motion table a row starts.

A start is any frame but the last of its clip, where the episode would be over at once. A sampler turns each row's own
uniform numbers into its start, so no row influences another's.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful
from domain.motion.table import MotionTable

Sampling = Literal["start", "clip_start", "uniform", "mixed", "adaptive"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptiveSettings:
    """How starts follow failures; the numbers may be device scalars that change while it runs."""

    rate: Tensor | float = 0.001
    """Share of one step's failures in their moving average."""
    uniform_ratio: Tensor | float = 0.1
    """What all bins together are given besides their failures, each by its frames; above 0."""
    kernel_size: int = 1
    """How many bins, from its own on, count for a bin; 1 is no smoothing."""
    kernel_decay: Tensor | float = 0.8
    """Weight of a bin against that of the one before it."""


class StartSampler(Stateful):
    """Starts at frame 0: the first of the first clip."""

    width = 0
    """Uniform numbers that one start takes."""

    def __init__(self, table: MotionTable) -> None:
        super().__init__()
        self.table = table

    def sample(self, numbers: Tensor) -> Tensor:
        """Return frames (rows,) int64 for numbers (rows, width) in [0, 1)."""
        return torch.zeros(numbers.shape[0], dtype=torch.int64, device=numbers.device)

    def fold(self, frame: Tensor, failed: Tensor) -> None:
        """Learn from one step: rows under ``failed``, (rows,) bool, failed at ``frame``; nothing by default."""

    def figures(self) -> dict[str, Tensor]:
        """Return 0-d figures of what it would draw, by name; none by default."""
        return {}


class ClipStartSampler(StartSampler):
    """Starts at the first frame of any clip, all clips alike."""

    width = 1

    def sample(self, numbers: Tensor) -> Tensor:
        """Return frames (rows,) int64."""
        return self.table.clip_start[_up_to(numbers[:, 0], len(self.table.bounds))]


class UniformSampler(StartSampler):
    """Starts at any frame of any clip, all frames alike."""

    width = 1

    def __init__(self, table: MotionTable) -> None:
        super().__init__(table)
        self._starts = torch.cat([torch.arange(start, end) for start, end in table.bounds]).to(table.data.device)

    def sample(self, numbers: Tensor) -> Tensor:
        """Return frames (rows,) int64."""
        return self._starts[_up_to(numbers[:, 0], len(self._starts))]


class MixedSampler(UniformSampler):
    """Starts at frame 0 with probability ``start_share``, else at any frame."""

    width = 2

    def __init__(self, table: MotionTable, start_share: Tensor) -> None:
        super().__init__(table)
        self._share = start_share

    def sample(self, numbers: Tensor) -> Tensor:
        """Return frames (rows,) int64."""
        return torch.where(numbers[:, 1] < self._share, 0, super().sample(numbers))


class AdaptiveSampler(StartSampler):
    """Starts more often where episodes have failed.

    Each clip is divided into floor(frames / fps) + 1 bins of its own, so that no bin and no smoothing reaches from one
    clip into another. ``failures``, (bins,), is a moving average of how many rows fail in a bin in a step that has
    failures; it outlives resets. ``probabilities``, (bins,), follow from it. Without failures all frames are alike: a
    bin's part is its share of all frames, so that a short clip, whose only bin has few, is not started more often.

    Raises:
        ConfigurationError: The kernel has no size.

    Source:
        Public unilab 1.5.2, adaptive motion sampler: p ~ f + ratio / bins, smoothed over bins b to b + K - 1 with
        normalised weights decay^k; start = trunc((b + u) / bins * (frames - 1)) within a clip. It has one clip, all
        of whose bins are alike.
    """

    width = 2

    def __init__(self, table: MotionTable, settings: AdaptiveSettings) -> None:
        super().__init__(table)
        if settings.kernel_size < 1:
            raise ConfigurationError(f"kernel_size is {settings.kernel_size}: give 1 for no smoothing, or more")
        self._settings = settings
        device = table.data.device
        self._make_bins()
        self.failures = self.keep("failures", torch.zeros(self.bins, device=device))
        self.probabilities = self.keep("probabilities", torch.zeros(self.bins, device=device))
        self._derive()

    def _make_bins(self) -> None:
        """Fix which bin a frame lies in, at which frames a bin's starts lie, and which bins count for it."""
        bin_of: list[Tensor] = []
        first: list[float] = []
        span: list[float] = []
        share: list[float] = []
        last: list[int] = []
        kernel: list[list[int]] = []
        for start, end in self.table.bounds:
            length, before = end - start + 1, len(first)
            count = math.floor(length / self.table.fps) + 1
            bin_of.append(torch.arange(length) * count // length + before)
            first += [start + b / count * (length - 1) for b in range(count)]
            span += [(length - 1) / count] * count
            share += [length / count / self.table.frames] * count
            last += [end - 1] * count
            reach = range(self._settings.kernel_size)
            kernel += [[before + min(b + k, count - 1) for k in reach] for b in range(count)]
        device = self.table.data.device
        self.bins = len(first)
        self.bin_of = torch.cat(bin_of).to(device)
        """(frames,) int64: in which bin a failure at a frame counts."""
        # Whole and broken part apart: their sum would lose the fraction in a long table.
        self._first = torch.tensor([math.floor(f) for f in first], device=device)
        self._offset = torch.tensor([f % 1.0 for f in first], dtype=torch.float32, device=device)
        self._span = torch.tensor(span, dtype=torch.float32, device=device)
        self._share = torch.tensor(share, dtype=torch.float32, device=device)
        self._last = torch.tensor(last, device=device)
        self._kernel = torch.tensor(kernel, device=device)
        self._steps = torch.arange(self._settings.kernel_size, device=device)

    def sample(self, numbers: Tensor) -> Tensor:
        """Return frames (rows,) int64."""
        edges = self.probabilities.cumsum(dim=0)
        place = numbers[:, 0] * edges[-1]
        chosen = torch.searchsorted(edges, place, right=True).clamp_(max=self.bins - 1)
        into = self._offset[chosen] + numbers[:, 1] * self._span[chosen]
        return torch.minimum(self._first[chosen] + into.to(torch.int64), self._last[chosen])

    def fold(self, frame: Tensor, failed: Tensor) -> None:
        """Count a step's failures, (rows,) bool at frames (rows,) int64; a step without any changes nothing."""
        counts = torch.zeros_like(self.failures).scatter_add_(0, self.bin_of[frame], failed.float())
        rate = self._settings.rate
        self.failures.copy_(torch.where(failed.any(), (1.0 - rate) * self.failures + rate * counts, self.failures))
        self._derive()

    def figures(self) -> dict[str, Tensor]:
        """Return the entropy as a share of its highest, the highest probability, and where that is, from 0 to 1."""
        # A single bin has no entropy.
        entropy = torch.special.entr(self.probabilities).sum() / math.log(max(self.bins, 2))
        highest, where = self.probabilities.max(dim=0)
        return {"sampling_entropy": entropy, "sampling_top1_prob": highest, "sampling_top1_bin": where / self.bins}

    def _derive(self) -> None:
        settings = self._settings
        raw = self.failures + settings.uniform_ratio * self._share
        if settings.kernel_size > 1:
            weights = settings.kernel_decay**self._steps
            raw = (raw[self._kernel] * weights).sum(dim=1) / weights.sum()
        torch.div(raw, raw.sum(), out=self.probabilities)


def make_sampler(
    mode: Sampling, table: MotionTable, *, start_share: Tensor | None, adaptive: AdaptiveSettings
) -> StartSampler:
    """Return the sampler of a mode.

    Raises:
        ConfigurationError: ``mixed`` without ``start_share``.
    """
    if mode == "mixed":
        if start_share is None:
            raise ConfigurationError("sampling is mixed: give start_share, the share of rows that start at frame 0")
        return MixedSampler(table, start_share)
    if mode == "adaptive":
        return AdaptiveSampler(table, adaptive)
    plain = {"start": StartSampler, "clip_start": ClipStartSampler, "uniform": UniformSampler}
    return plain[mode](table)


def _up_to(numbers: Tensor, count: int) -> Tensor:
    """Return whole numbers from 0 to ``count`` - 1, all alike, for uniform ones in [0, 1)."""
    # Close below 1 the product may round to count.
    return (numbers * count).to(torch.int64).clamp_(max=count - 1)
