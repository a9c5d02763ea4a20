"""Squashed Gaussian actions: bounds, the bounded log standard deviation and two forms of the log-density.

With u = mu + exp(ls) eps and a = tanh(u) c + d, the density of a is that of u divided by the slope c (1 - tanh(u)^2).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_GUARD = 1e-6


class ActionBounds:
    """Maps [-1, 1] to [low, high] per action: c = (high - low) / 2, d = (high + low) / 2.

    Args:
        low: Lower bounds, (A,), in the units of the environment's action.
        high: Upper bounds, above ``low``.
        device: Where actions are.
    """

    def __init__(self, low: tuple[float, ...], high: tuple[float, ...], device: torch.device) -> None:
        bottom, top = torch.tensor(low, device=device), torch.tensor(high, device=device)
        self.scale = (top - bottom) / 2
        self.bias = (top + bottom) / 2

    def denormalize(self, unit: Tensor) -> Tensor:
        """Map actions in [-1, 1], (..., A), to the environment's units."""
        return torch.addcmul(self.bias, unit, self.scale)


def bounded_log_std(raw: Tensor, low: float, high: float) -> Tensor:
    """Return low + (high - low) (tanh(raw) + 1) / 2."""
    half = 0.5 * (high - low)
    return half * torch.tanh(raw) + (low + half)


def guarded_log_density(u: Tensor, noise: Tensor, log_std: Tensor, scale: Tensor) -> Tensor:
    """Return log pi(a), (rows,), with 1e-6 inside the logarithms (FastSAC, arXiv 2512.01996).

    Args:
        u: Before the squash, (rows, A).
        noise: eps, (rows, A).
        log_std: ls, (rows, A).
        scale: c, (A,).
    """
    slope = torch.log(1.0 - torch.tanh(u).square() + _GUARD) + torch.log(scale + _GUARD)
    return (-0.5 * noise.square() - log_std - _HALF_LOG_2PI - slope).sum(dim=-1)


def stable_log_density(u: Tensor, noise: Tensor, log_std: Tensor, scale: Tensor) -> Tensor:
    """Return log pi(a), (rows,), with log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)) (FlashSAC, arXiv 2604.04539).

    Args:
        u: Before the squash, (rows, A).
        noise: eps, (rows, A).
        log_std: ls, (rows, A).
        scale: c, (A,).
    """
    slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u)) + torch.log(scale)
    return (-0.5 * noise.square() - log_std - _HALF_LOG_2PI - slope).sum(dim=-1)


class TanhGaussian:
    """Actions of a network whose output is (rows, 2 A or more): means, then raw log standard deviations.

    Args:
        bounds: Of the action.
        log_std: Lowest and highest log standard deviation.
        log_density: Either form of this module.
    """

    def __init__(
        self,
        bounds: ActionBounds,
        log_std: tuple[float, float],
        log_density: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    ) -> None:
        self.bounds = bounds
        self._log_std, self._log_density = log_std, log_density
        self._actions = len(bounds.scale)

    def middle(self, head: Tensor) -> Tensor:
        """Return the deterministic action, (rows, A), in env units."""
        return self.bounds.denormalize(torch.tanh(head[..., : self._actions]))

    def sample(self, head: Tensor, noise: Tensor) -> Tensor:
        """Return the action of ``noise``, (rows, A) standard normal, in env units."""
        return self.bounds.denormalize(torch.tanh(self._before_squash(head, noise)[0]))

    def draw(self, head: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action of ``noise``, in env units, and its log-density, (rows,)."""
        u, log_std = self._before_squash(head, noise)
        return self.bounds.denormalize(torch.tanh(u)), self._log_density(u, noise, log_std, self.bounds.scale)

    def _before_squash(self, head: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw, _ = head.tensor_split((self._actions, 2 * self._actions), dim=-1)
        log_std = bounded_log_std(raw, *self._log_std)
        return torch.addcmul(mean, log_std.exp(), noise), log_std
