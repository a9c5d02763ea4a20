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
from domain.learning.tanh_gaussian import LogDensity, bounded_log_std, log_density

BATCH_MOMENTUM = 0.01
BATCH_EPSILON = 1e-5
LAYER_EPSILON = 1e-5
RMS_EPSILON = 1e-6
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
class CosineRate:
    """A learning rate that falls from ``start`` to ``end`` by half a cosine over ``horizon`` optimiser steps."""

    start: float
    end: float
    horizon: int

    @classmethod
    def constant(cls, rate: float) -> "CosineRate":
        """Return a rate that stays."""
        return cls(start=rate, end=rate, horizon=1)

    def at(self, step: Tensor) -> Tensor:
        """Return the rate of the step that follows ``step`` steps."""
        half = 0.5 * (self.start - self.end)
        return torch.cos((step * (math.pi / self.horizon)).clamp(max=math.pi)) * half + (self.end + half)


@dataclass(frozen=True, kw_only=True)
class AdamWCfg:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101), Adam where ``weight_decay`` is 0; eps is 1e-8."""

    rate: CosineRate
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    max_grad_norm: float = 0.0
    """L2 norm to which gradients are clipped; 0 clips nothing."""


@dataclass(frozen=True, slots=True)
class Squash:
    """How a network's output becomes an action: a Gaussian, tanh, and the way from [-1, 1] to [low, high].

    ``scale`` and ``bias`` are (A,); the log standard deviation lies within ``log_std``; ``log_density`` is one of the
    two forms.
    """

    scale: Tensor
    bias: Tensor
    log_std: tuple[float, float]
    log_density: LogDensity


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

    def rms_norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """Return x / sqrt(mean(x^2) + 1e-6) gain, differentiable; shapes and types as in ``norm_silu``."""
        ...

    def batch_norm_relu(
        self, x: Tensor, state: BatchNormState, batch_statistics: bool, residual: Tensor | None = None
    ) -> Tensor:
        """Return residual + ReLU(BatchNorm(x)), differentiable.

        Args:
            x: (rows, width) or (rows, members, width), float32 or bfloat16; the result has its type.
            state: With batch statistics, running ones move towards them (momentum 0.01, unbiased variance) where
                they stay finite; else they are used, and gains get no gradient.
            batch_statistics: Which statistics normalise.
            residual: As ``x``.
        """
        ...

    def input_norm(self, x: Tensor, state: BatchNormState, batch_statistics: bool, weight: Tensor) -> Tensor:
        """Return BatchNorm(x) for the product with a matrix: in its type, and with zeros up to its columns.

        Normalised in float32: a narrow type would round observations that differ little from their mean.

        Args:
            x: (rows, width) float32, the same for all members.
            state: As in ``batch_norm_relu``.
            batch_statistics: As in ``batch_norm_relu``.
            weight: ([members,] out, width or more).

        Returns:
            (rows[, members], columns of ``weight``).
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

    def draw(self, head: Tensor, noise: Tensor, squash: Squash) -> tuple[Tensor, Tensor]:
        """Return the action of a noise, (rows, A), in env units, and its log-density, (rows,); differentiable.

        Args:
            head: (rows, 2 A or more) float32: means, raw log standard deviations, and what is ignored.
            noise: Standard normal, (rows, A).
            squash: From one to the other.
        """
        ...

    def adamw(self, weights: Tensor, gradient: Tensor, state: AdamState, cfg: AdamWCfg, signal: Tensor) -> Tensor:
        """Do one step of ``weights``, (n,), in place if ``signal``, 0-dim, is finite; else nothing at all.

        Returns:
            Whether the step was done, 0-dim bool.
        """
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

    def rms_norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """See ``Kernels``."""
        return F.rms_norm(x, x.shape[-1:], eps=RMS_EPSILON) * gain.to(x.dtype)

    def batch_norm_relu(
        self, x: Tensor, state: BatchNormState, batch_statistics: bool, residual: Tensor | None = None
    ) -> Tensor:
        """See ``Kernels``."""
        y = F.relu(_batch_norm(x, state, batch_statistics))
        return y if residual is None else residual + y

    def input_norm(self, x: Tensor, state: BatchNormState, batch_statistics: bool, weight: Tensor) -> Tensor:
        """See ``Kernels``."""
        if state.gain.dim() == 2:
            x = x.unsqueeze(1).expand(-1, len(state.gain), -1).contiguous()
        y = _batch_norm(x, state, batch_statistics).to(weight.dtype)
        return F.pad(y, (0, weight.shape[-1] - y.shape[-1]))

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

    def draw(self, head: Tensor, noise: Tensor, squash: Squash) -> tuple[Tensor, Tensor]:
        """See ``Kernels``."""
        mean, raw, _ = head.tensor_split((noise.shape[-1], 2 * noise.shape[-1]), dim=-1)
        log_std = bounded_log_std(raw, *squash.log_std)
        u = torch.addcmul(mean, log_std.exp(), noise)
        action = torch.addcmul(squash.bias, torch.tanh(u), squash.scale)
        return action, log_density(u, noise, log_std, squash.scale, squash.log_density)

    def adamw(self, weights: Tensor, gradient: Tensor, state: AdamState, cfg: AdamWCfg, signal: Tensor) -> Tensor:
        """See ``Kernels``."""
        active, rate = torch.isfinite(signal), cfg.rate.at(state.step)
        (beta1, beta2), step = cfg.betas, state.step.add_(active)
        first = torch.lerp(state.exp_avg, gradient, 1.0 - beta1)
        second = torch.lerp(state.exp_avg_sq, gradient.square(), 1.0 - beta2)
        # 1 - beta^step, without the cancellation.
        bias1, bias2 = (-torch.expm1(step * math.log(beta)) for beta in (beta1, beta2))
        change = (first / bias1) / ((second / bias2).sqrt() + ADAM_EPSILON)
        moved = weights * (1.0 - rate * cfg.weight_decay) - rate * change
        for tensor, value in ((state.exp_avg, first), (state.exp_avg_sq, second), (weights, moved)):
            tensor.copy_(torch.where(active, value, tensor))
        return active

    def projection(self, rows: Sequence[UnitRows]) -> Callable[[], None]:
        """See ``Kernels``."""

        def project() -> None:
            for group in rows:
                squares = torch.stack([weight.square().sum(dim=-1, keepdim=True) for weight in group.weights]).sum(0)
                factor = group.norm * (squares + NORM_EPSILON).rsqrt()
                for weight in group.weights:
                    weight.mul_(factor)

        return project


PLAIN = TorchKernels()
"""What a module uses where nothing else is asked for, so that a copy of it works anywhere."""


def _batch_norm(x: Tensor, state: BatchNormState, batch_statistics: bool) -> Tensor:
    """Normalise (rows[, members], width) per column; see ``Kernels.batch_norm_relu``."""
    moved = (state.mean.clone(), state.var.clone())
    y = F.batch_norm(
        x.flatten(1),
        moved[0].flatten(),
        moved[1].flatten(),
        state.gain.flatten(),
        state.shift.flatten(),
        batch_statistics,
        BATCH_MOMENTUM,
        BATCH_EPSILON,
    )
    if batch_statistics:
        for old, new in zip((state.mean, state.var), moved, strict=True):
            old.copy_(torch.where(torch.isfinite(new), new, old))
    return y.view_as(x)


def _lower(distributions: Tensor, support: Support) -> Tensor:
    """Return the distribution, (rows, 1, K), of the critic that promises less, of (rows, 2, K)."""
    values = support.mean(distributions)
    first = (values[:, 0] < values[:, 1])[:, None, None]
    return torch.where(first, distributions[:, :1], distributions[:, 1:])
