"""Optimiser steps that never ask the host: guarded against non-finite values, clipped, with rates on the device."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.learning.kernels import AdamState, AdamWCfg, Kernels

_CLIP_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class CosineRate:
    """A learning rate that falls from ``start`` to ``end`` by half a cosine over ``horizon`` optimiser steps."""

    start: float
    end: float
    horizon: int

    def at(self, step: Tensor) -> Tensor:
        """Return the rate of the step that follows ``step`` steps."""
        half = 0.5 * (self.start - self.end)
        return torch.cos((step * (math.pi / self.horizon)).clamp(max=math.pi)) * half + (self.end + half)


class Stepper:
    """AdamW over one block of weights.

    Args:
        weights: (n,) float32, changed in place.
        rate: Constant, or a schedule over this optimiser's own steps.
        cfg: Of the optimiser.
        kernels: Do the step.
    """

    def __init__(self, weights: Tensor, rate: float | CosineRate, cfg: AdamWCfg, kernels: Kernels) -> None:
        self._weights, self._cfg, self._kernels = weights, cfg, kernels
        self._schedule = rate if isinstance(rate, CosineRate) else None
        start = rate.start if isinstance(rate, CosineRate) else rate
        self.rate = torch.tensor(start, device=weights.device)
        step = torch.zeros((), device=weights.device)
        self.state = AdamState(torch.zeros_like(weights), torch.zeros_like(weights), step)

    @torch.no_grad()
    def step(self, loss: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Do one step against ``gradient``, (n,); none at all where it or the 0-dim ``loss`` is not finite.

        Returns:
            The gradient's norm before clipping, and whether the step was done, 0-dim bool.
        """
        norm = torch.linalg.vector_norm(gradient)
        active = torch.isfinite(loss + norm)
        if self._schedule is not None:
            self.rate.copy_(self._schedule.at(self.state.step))
        if self._cfg.max_grad_norm:
            gradient = gradient * (self._cfg.max_grad_norm / (norm + _CLIP_EPSILON)).clamp(max=1.0)
        self._kernels.adamw(self._weights, gradient, self.state, self.rate, self._cfg, active)
        return norm, active
