"""Exploration noise of TD3 and FlashSAC: what of it lasts longer than a step, row by row.

Each call draws numbers for all rows, so the generator's position never depends on which rows ended.
"""

import torch
from torch import Tensor, nn


class EpisodeNoise(nn.Module):
    """Gaussian noise whose scale is drawn per env and episode (FastTD3, arXiv 2505.22642).

    Args:
        num_envs: Rows.
        low: Least scale, in units of the action in [-1, 1].
        high: Greatest scale.
        generator: Draws everything.
    """

    scale: Tensor

    def __init__(self, num_envs: int, low: float, high: float, generator: torch.Generator) -> None:
        super().__init__()
        self._range, self._generator = (low, high), generator
        self.register_buffer("scale", torch.empty(num_envs, 1, device=generator.device))
        self.scale.uniform_(low, high, generator=generator)

    def start_episodes(self, mask: Tensor) -> None:
        """Draw new scales for the rows under ``mask``, (num_envs,) bool."""
        drawn = torch.empty_like(self.scale).uniform_(*self._range, generator=self._generator)
        self.scale.copy_(torch.where(mask[:, None], drawn, self.scale))

    def forward(self, actions: int) -> Tensor:
        """Return new noise, (num_envs, actions)."""
        shape = (self.scale.shape[0], actions)
        return self.scale * torch.empty(shape, device=self.scale.device).normal_(generator=self._generator)


class RepeatedNoise(nn.Module):
    """Standard normal noise that each env holds for k steps, P(k) ~ k^-exponent (FlashSAC, arXiv 2604.04539).

    The public unilab 1.5.2 counts per env and draws anew when an episode ends; the paper's code has one count for all.

    Args:
        num_envs: Rows.
        actions: Columns.
        exponent: Of the law of k.
        longest: Greatest k.
        generator: Draws everything.
    """

    held: Tensor
    remaining: Tensor

    def __init__(self, num_envs: int, actions: int, exponent: float, longest: int, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator
        weights = torch.arange(1, longest + 1, dtype=torch.float32, device=generator.device) ** -exponent
        self._cumulative = torch.cumsum(weights / weights.sum(), dim=0)[:-1]
        self.register_buffer("held", torch.zeros(num_envs, actions, device=generator.device))
        self.register_buffer("remaining", torch.zeros(num_envs, dtype=torch.int64, device=generator.device))

    def start_episodes(self, mask: Tensor) -> None:
        """Let the rows under ``mask``, (num_envs,) bool, draw at their next step."""
        self.remaining.masked_fill_(mask, 0)

    def forward(self) -> Tensor:
        """Return the noise of the next step, (num_envs, actions)."""
        drawn = torch.empty_like(self.held).normal_(generator=self._generator)
        uniform = torch.empty(self.remaining.shape, device=self.held.device).uniform_(generator=self._generator)
        steps = torch.bucketize(uniform, self._cumulative, right=True) + 1
        over = self.remaining == 0
        self.held.copy_(torch.where(over[:, None], drawn, self.held))
        self.remaining.copy_(torch.where(over, steps, self.remaining) - 1)
        return self.held
