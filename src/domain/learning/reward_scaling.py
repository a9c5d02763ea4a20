"""Scale of rewards by the running spread of returns (FlashSAC, arXiv 2604.04539)."""

import torch
from torch import Tensor, nn

from domain.learning.running_moments import RunningMoments


class RewardScaler(nn.Module):
    """Follows each env's discounted return in write order; rewards are divided by ``denominator`` when gathered.

    G <- gamma (1 - done) G + r per env; the denominator is max(sqrt(var(G) + 1e-8), max|G| / max_return). The end of
    a step cuts the return before it, as in the source: an ended episode's last G is its last reward alone.

    Args:
        num_envs: Rows of a step.
        gamma: Discount a step.
        max_return: Bound of a scaled return.
        device: Where rewards are.
    """

    returns: Tensor
    peak: Tensor
    denominator: Tensor

    def __init__(self, num_envs: int, gamma: float, max_return: float, device: torch.device) -> None:
        super().__init__()
        self._gamma, self._max_return = gamma, max_return
        self.moments = RunningMoments(count=1e-4)
        self.register_buffer("returns", torch.zeros(num_envs))
        self.register_buffer("peak", torch.zeros(()))
        self.register_buffer("denominator", torch.ones(()))
        self.to(device)

    def start_episodes(self) -> None:
        """Forget the returns so far: all episodes begin anew."""
        self.returns.zero_()

    def observe(self, reward: Tensor, done: Tensor, valid: Tensor | None = None) -> None:
        """Take in one committed step; no host read.

        Args:
            reward: Raw, (num_envs,).
            done: Terminated or truncated, (num_envs,) bool.
            valid: False for rows that broke, (num_envs,) bool: statistics skip them, and rewards that are not finite.
        """
        usable = torch.isfinite(reward) if valid is None else valid & torch.isfinite(reward)
        self.returns.copy_(torch.where(usable, self._gamma * torch.where(done, 0.0, self.returns) + reward, 0.0))
        kept = usable.to(reward.dtype)
        count = kept.sum()
        mean = self.returns.sum() / count.clamp(min=1.0)
        var = ((self.returns - mean).square() * kept).sum() / count.clamp(min=1.0)
        self.moments.merge(mean, var, count)
        self.peak.copy_(torch.maximum(self.peak, self.returns.abs().amax()))
        spread = (self.moments.var + 1e-8).sqrt()
        self.denominator.copy_(torch.maximum(spread, self.peak / self._max_return))
