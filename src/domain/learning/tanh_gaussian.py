"""Squashed Gaussian actions: the bounded log standard deviation and two forms of the log-density.

With u = mu + exp(ls) eps and a = tanh(u) c + d, the density of a is that of u divided by the slope c (1 - tanh(u)^2).
"""

import math
from enum import Enum

import torch
from torch import Tensor
from torch.nn import functional as F

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
GUARD = 1e-6


def bounded_log_std(raw: Tensor, low: float, high: float) -> Tensor:
    """Return low + (high - low) (tanh(raw) + 1) / 2."""
    half = 0.5 * (high - low)
    return half * torch.tanh(raw) + (low + half)


class LogDensity(Enum):
    """Two forms of log(1 - tanh(u)^2), which differ where tanh(u) is near an end."""

    GUARDED = "guarded"
    """With 1e-6 inside each logarithm (FastSAC, arXiv 2512.01996)."""
    STABLE = "stable"
    """As 2 (log 2 - u - softplus(-2u)) (FlashSAC, arXiv 2604.04539)."""


def log_density(u: Tensor, noise: Tensor, log_std: Tensor, scale: Tensor, form: LogDensity) -> Tensor:
    """Return log pi(a), (rows,).

    Args:
        u: Before the squash, (rows, A).
        noise: eps, (rows, A).
        log_std: ls, (rows, A).
        scale: c, (A,).
        form: Of the squash's slope.
    """
    if form is LogDensity.GUARDED:
        slope = torch.log(1.0 - torch.tanh(u).square() + GUARD) + torch.log(scale + GUARD)
    else:
        slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u)) + torch.log(scale)
    return (-0.5 * noise.square() - log_std - HALF_LOG_2PI - slope).sum(dim=-1)
