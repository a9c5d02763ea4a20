"""Optimiser steps that never ask the host: guarded against non-finite values, clipped, with rates on the device."""

import torch
from torch import Tensor

from domain.learning.kernels import AdamState, AdamWCfg, Kernels

_CLIP_EPSILON = 1e-6


class Stepper:
    """AdamW over one block of weights.

    Args:
        weights: (n,) float32, changed in place.
        cfg: Of the optimiser; a schedule counts this optimiser's own steps.
        kernels: Do the step.
    """

    def __init__(self, weights: Tensor, cfg: AdamWCfg, kernels: Kernels) -> None:
        self._weights, self._cfg, self._kernels = weights, cfg, kernels
        step = torch.zeros((), device=weights.device)
        self.state = AdamState(torch.zeros_like(weights), torch.zeros_like(weights), step)

    @torch.no_grad()
    def step(self, loss: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Do one step against ``gradient``, (n,); none at all where it or the 0-dim ``loss`` is not finite.

        Returns:
            The gradient's norm before clipping, and whether the step was done, 0-dim bool.
        """
        norm = torch.linalg.vector_norm(gradient)
        if self._cfg.max_grad_norm:
            gradient = gradient * (self._cfg.max_grad_norm / (norm + _CLIP_EPSILON)).clamp(max=1.0)
        return norm, self._kernels.adamw(self._weights, gradient, self.state, self._cfg, loss + norm)
