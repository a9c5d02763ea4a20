"""The costly operations of a learner behind one port, and their form in plain Torch.

An update of small networks is bound by memory traffic and by the number of launches, so an adapter may do each of
these in one pass over memory. Whatever does them, the numbers agree up to rounding.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from domain.learning.categorical import Support, cross_entropy

BATCH_MOMENTUM = 0.01
BATCH_EPSILON = 1e-5
LAYER_EPSILON = 1e-5
ADAM_EPSILON = 1e-8
NORM_EPSILON = 1e-8


class TargetRule(Enum):
    """Which distribution twin critics learn from."""

    OWN = "own"
    """Each critic from its own target."""
    LOWER_TARGET = "lower target"
    """Both from the projected target with the lower mean."""
    LOWER_NEXT = "lower next"
    """Both from the next distribution with the lower mean, projected."""


@dataclass(frozen=True, slots=True)
class Bellman:
    """The affine map r + g (z - h) of each row, (rows,) each; ``shift`` h is 0 where it is None."""

    reward: Tensor
    discount: Tensor
    shift: Tensor | None = None


@dataclass(frozen=True, slots=True)
class BatchNormState:
    """Gains and shifts, (width,) or (members, width), and running mean and variance of the same shape."""

    gain: Tensor
    shift: Tensor
    mean: Tensor
    var: Tensor


@dataclass(frozen=True, slots=True)
class AdamState:
    """Moments, (n,), and the number of steps done, 0-dim float32."""

    exp_avg: Tensor
    exp_avg_sq: Tensor
    step: Tensor


@dataclass(frozen=True, kw_only=True)
class AdamWCfg:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101), Adam where ``weight_decay`` is 0; eps is 1e-8."""

    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    max_grad_norm: float = 0.0
    """L2 norm to which gradients are clipped; 0 clips nothing."""


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Rows, (..., width), of weights of one shape, that together keep the norm ``norm``: their last axes are joined."""

    weights: tuple[Tensor, ...]
    norm: float


class Kernels(Protocol):
    """Operations on tensors of one device; none reads a value on the host."""

    def norm_silu(self, x: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        """Return SiLU(LayerNorm(x + bias) gain + shift), differentiable.

        Args:
            x: (rows, width) or (rows, members, width), float32 or bfloat16; the result has its type.
            bias: (width,) or (members, width), float32, as ``gain`` and ``shift``.
        """
        ...

    def batch_norm_relu(
        self, x: Tensor, state: BatchNormState, batch_statistics: bool, residual: Tensor | None = None
    ) -> Tensor:
        """Return residual + ReLU(BatchNorm(x)), differentiable.

        Args:
            x: (rows, width) or (rows, members, width), float32 or bfloat16; the result has its type.
            state: With batch statistics, running ones move towards them (momentum 0.01, unbiased variance); else
                they are used, and gains get no gradient.
            batch_statistics: Which statistics normalise.
            residual: As ``x``.
        """
        ...

    def bellman_loss(
        self, logits: Tensor, next_logits: Tensor, bellman: Bellman, support: Support, rule: TargetRule
    ) -> tuple[Tensor, Tensor]:
        """Return the sum over both critics of the cross-entropy with their targets, and the targets' mean value.

        Args:
            logits: (rows, 2, columns) float32, differentiable; columns beyond the support's atoms are ignored.
            next_logits: Of the target critics, the same shape.
            bellman: How the next distribution becomes the target.
            support: Atoms.
            rule: Which distribution is the target.

        Returns:
            (rows,) each; only the first has a gradient.
        """
        ...

    def adamw(
        self, weights: Tensor, gradient: Tensor, state: AdamState, rate: Tensor, cfg: AdamWCfg, active: Tensor
    ) -> None:
        """Do one step of ``weights``, (n,), in place where ``active``, 0-dim bool; else nothing. ``rate`` is 0-dim."""
        ...

    def projection(self, rows: Sequence[UnitRows]) -> Callable[[], None]:
        """Return a function that scales all these rows to their norms in place; their storage must not move."""
        ...


class TorchKernels:
    """Kernels in plain Torch, for any device, and the measure of all others."""

    def norm_silu(self, x: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        """See ``Kernels``."""
        to = x.dtype
        normal = F.layer_norm(x + bias.to(to), x.shape[-1:], eps=LAYER_EPSILON)
        return F.silu(torch.addcmul(shift.to(to), normal, gain.to(to)))

    def batch_norm_relu(
        self, x: Tensor, state: BatchNormState, batch_statistics: bool, residual: Tensor | None = None
    ) -> Tensor:
        """See ``Kernels``."""
        y = F.relu(batch_norm(x, state, batch_statistics))
        return y if residual is None else residual + y

    def bellman_loss(
        self, logits: Tensor, next_logits: Tensor, bellman: Bellman, support: Support, rule: TargetRule
    ) -> tuple[Tensor, Tensor]:
        """See ``Kernels``."""
        atoms = len(support.atoms)
        with torch.no_grad():
            target = torch.softmax(next_logits[..., :atoms], dim=-1)
            if rule is TargetRule.LOWER_NEXT:
                target = _lower(target, support)
            target = support.project(target, bellman.reward, bellman.discount, bellman.shift)
            if rule is TargetRule.LOWER_TARGET:
                target = _lower(target, support)
            value = support.mean(target).mean(dim=-1)
        return cross_entropy(logits[..., :atoms], target).sum(dim=-1), value

    def adamw(
        self, weights: Tensor, gradient: Tensor, state: AdamState, rate: Tensor, cfg: AdamWCfg, active: Tensor
    ) -> None:
        """See ``Kernels``."""
        (beta1, beta2), step = cfg.betas, state.step.add_(active)
        first = torch.lerp(state.exp_avg, gradient, 1.0 - beta1)
        second = torch.lerp(state.exp_avg_sq, gradient.square(), 1.0 - beta2)
        # 1 - beta^step, without the cancellation.
        bias1, bias2 = (-torch.expm1(step * math.log(beta)) for beta in (beta1, beta2))
        change = (first / bias1) / ((second / bias2).sqrt() + ADAM_EPSILON)
        moved = weights * (1.0 - rate * cfg.weight_decay) - rate * change
        for tensor, value in ((state.exp_avg, first), (state.exp_avg_sq, second), (weights, moved)):
            tensor.copy_(torch.where(active, value, tensor))

    def projection(self, rows: Sequence[UnitRows]) -> Callable[[], None]:
        """See ``Kernels``."""

        def project() -> None:
            for group in rows:
                squares = torch.stack([weight.square().sum(dim=-1, keepdim=True) for weight in group.weights]).sum(0)
                factor = group.norm * (squares + NORM_EPSILON).rsqrt()
                for weight in group.weights:
                    weight.mul_(factor)

        return project


def batch_norm(x: Tensor, state: BatchNormState, batch_statistics: bool) -> Tensor:
    """Normalise (rows[, members], width) per column; see ``Kernels.batch_norm_relu``."""
    y = F.batch_norm(
        x.flatten(1),
        state.mean.flatten(),
        state.var.flatten(),
        state.gain.flatten(),
        state.shift.flatten(),
        batch_statistics,
        BATCH_MOMENTUM,
        BATCH_EPSILON,
    )
    return y.view_as(x)


def _lower(distributions: Tensor, support: Support) -> Tensor:
    """Return the distribution, (rows, 1, K), of the critic that promises less, of (rows, 2, K)."""
    values = support.mean(distributions)
    first = (values[:, 0] < values[:, 1])[:, None, None]
    return torch.where(first, distributions[:, :1], distributions[:, 1:])
