"""Draws transitions from a flat ring of packed rows, and fills a batch with them.

The number s of a row counts all rows ever written; it lies at physical row ``s % capacity``, and the next row of
its environment is number ``s + stride``. Nothing here reads the device or has a shape that depends on data.
"""

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.replay.batch import TransitionBatch
from domain.replay.layout import RowLayout

_WORD = 30  # bits of one random number: MPS draws integers below 2^31 only


def draw(generator: torch.Generator, size: Tensor, out: Tensor) -> None:
    """Fill ``out`` (int64, any shape) with numbers uniform in [0, size), with replacement.

    Args:
        generator: On the device of ``out``; a graph that captures the draw must know it (``register_generator_state``).
        size: 0-dim int64 on the same device, 1 to 2^33: the committed rows, at most the capacity. 0 gives zeros.
        out: Physical rows. No value is likelier than another by more than size / 2^60: floats, with their 24 bits,
            would hit some rows of a ring of 10 million twice as often as their neighbours.
    """
    words = torch.empty((2, *out.shape), dtype=torch.int64, device=out.device)
    high, low = words.random_(0, 1 << _WORD, generator=generator).unbind()
    # The integer part of size * (high, low) / 2^60, by halves because the product has more than 63 bits.
    torch.bitwise_right_shift(high * size + (low * size >> _WORD), _WORD, out=out)


class BatchGather:
    """Fills a TransitionBatch with samples of up to ``n_step`` rows of one environment.

    Args:
        ring: Packed rows, (capacity, width) float32; its storage must not move.
        layout: Of a row.
        stride: Environments, so rows of one environment lie this far apart; capacity need not be a multiple of it.
        gamma: Discount of one step, 0 to 1.
        n_step: Rewards of a sample, at least 1.

    Raises:
        ConfigurationError: A ring that does not fit the layout, or a number outside its range.
    """

    def __init__(self, *, ring: Tensor, layout: RowLayout, stride: int, gamma: float, n_step: int) -> None:
        if ring.dim() != 2 or ring.shape[1] != layout.width or not len(ring) or ring.dtype != torch.float32:
            raise ConfigurationError(
                f"the replay ring is {ring.dtype} {tuple(ring.shape)}: "
                f"make it torch.float32 (capacity, {layout.width}) with a capacity of at least 1"
            )
        if stride < 1 or n_step < 1:
            raise ConfigurationError(f"n_step is {n_step} with {stride} environments: both must be at least 1")
        if not 0.0 <= gamma <= 1.0:
            raise ConfigurationError(f"gamma is {gamma}: give a discount from 0 to 1")
        self._ring, self._layout, self._stride, self._n_step = ring, layout, stride, n_step
        self._offsets = torch.arange(n_step, device=ring.device).mul_(stride).unsqueeze(1)
        powers = torch.tensor([gamma**k for k in range(n_step + 1)], dtype=torch.float32, device=ring.device)
        self._weights, self._decays = powers[:-1].unsqueeze(1), powers[1:]

    def fill(
        self, index: Tensor, committed: Tensor, batch: TransitionBatch, reward_scale: Tensor | None = None
    ) -> None:
        """Fill ``batch`` with the samples that start at the rows ``index``; a fixed number of kernels, no host read.

        A sample ends with its n-th row, at the first row that is terminated or truncated, or at the newest committed
        row of its environment. Observation and action are those of its first row, all other columns of its last.

        Args:
            index: (updates * batch_size,) int64, committed physical rows.
            committed: 0-dim int64 on the device, how many rows were ever written.
            batch: Of the ring's layout, on its device.
            reward_scale: 0-dim float32 on the device: what ``batch.reward`` is divided by; rows keep raw rewards.

        Raises:
            ConfigurationError: Another number of rows, or another layout, than the batch has.
        """
        if index.shape != (batch.reward.numel(),) or batch.layout != self._layout:
            raise ConfigurationError(
                f"{tuple(index.shape)} rows of {self._layout} do not fill a batch of "
                f"{batch.reward.numel()} rows of {batch.layout}: build both from one configuration"
            )
        rows, columns = batch.rows.view(-1, self._layout.width), batch.columns
        if self._n_step == 1:
            torch.index_select(self._ring, 0, index, out=rows)
            reward, decay = columns.reward, self._decays
        else:
            reward, length = self._sum_rewards(index, committed)
            last = (index + (length - 1) * self._stride) % len(self._ring)
            first_part, last_part = slice(None, self._layout.successor), slice(self._layout.successor, None)
            torch.index_select(self._ring[:, first_part], 0, index, out=rows[:, first_part])
            torch.index_select(self._ring[:, last_part], 0, last, out=rows[:, last_part])
            reward = reward.view_as(batch.reward)
            decay = self._decays.index_select(0, length - 1).view_as(batch.discount)
        torch.mul(1.0 - columns.terminated, decay, out=batch.discount)
        if reward_scale is None:
            batch.reward.copy_(reward)
        else:
            torch.div(reward, reward_scale, out=batch.reward)

    def _sum_rewards(self, index: Tensor, committed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the discounted sum, and the number of its rewards (int64), of the samples from ``index``: (rows,)."""
        capacity = len(self._ring)
        following = (index + self._offsets) % capacity  # (n_step, rows)
        ends = self._ring[:, -3:].index_select(0, following.flatten()).view(*following.shape, 3)
        reward, terminated, truncated = ends.unbind(-1)
        done = (terminated + truncated > 0).to(torch.int64)
        newer = (committed - 1 - index) % capacity  # rows written since
        used = (done.cumsum(0) == done) & (self._offsets <= newer)
        # Rows that are not used hold anything, NaN too.
        return torch.where(used, reward * self._weights, 0.0).sum(0), used.sum(0)
