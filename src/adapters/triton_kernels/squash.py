"""The squashed Gaussian draw with its log-density, and its derivative."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from domain.learning.kernels import Squash
from domain.learning.tanh_gaussian import GUARD, HALF_LOG_2PI, LogDensity

_ROWS = 16


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _slope(x):
    """Return 1 - tanh(x)^2 without the cancellation near the ends."""
    return 4.0 * tl.sigmoid(2.0 * x) * tl.sigmoid(-2.0 * x)


@triton.jit
def _place(rows, actions, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    return row, col, (row < rows)[:, None] & (col < actions)[None, :]


@triton.jit
def _gaussian(head, noise, row, col, inside, columns, actions, middle, half):
    """Return eps, tanh of the raw deviation, its logarithm, and u."""
    at = row[:, None] * columns + col[None, :]
    eps = tl.load(noise + row[:, None] * actions + col[None, :], mask=inside, other=0.0)
    bent = _tanh(tl.load(head + at + actions, mask=inside, other=0.0))
    log_std = middle + half * bent
    return eps, bent, log_std, tl.load(head + at, mask=inside, other=0.0) + tl.exp(log_std) * eps


@triton.jit
def _forward(
    head, noise, scale, bias, action, log_prob, rows, columns, actions, middle, half, guard, half_log_2pi,
    GUARDED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, col, inside = _place(rows, actions, ROWS, BLOCK)
    eps, _, log_std, u = _gaussian(head, noise, row, col, inside, columns, actions, middle, half)
    c = tl.load(scale + col, mask=col < actions, other=1.0)[None, :]
    d = tl.load(bias + col, mask=col < actions, other=0.0)[None, :]
    unit = _tanh(u)
    if GUARDED:
        slope = tl.log(_slope(u) + guard) + tl.log(c + guard)
    else:
        # softplus(x) = max(x, 0) + log(1 + exp(-|x|))
        softplus = tl.maximum(-2.0 * u, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(2.0 * u)))
        slope = 2.0 * (0.6931471805599453 - u - softplus) + tl.log(c)
    density = tl.where(inside, -0.5 * eps * eps - log_std - half_log_2pi - slope, 0.0)
    tl.store(log_prob + row, tl.sum(density, 1), mask=row < rows)
    tl.store(action + row[:, None] * actions + col[None, :], d + unit * c, mask=inside)


@triton.jit
def _backward(
    head, noise, scale, grad_action, grad_log_prob, grad_head, rows, columns, actions, middle, half, guard,
    GUARDED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, col, inside = _place(rows, actions, ROWS, BLOCK)
    eps, bent, log_std, u = _gaussian(head, noise, row, col, inside, columns, actions, middle, half)
    c = tl.load(scale + col, mask=col < actions, other=1.0)[None, :]
    unit = _tanh(u)
    flat = _slope(u)
    pull = 2.0 * unit
    if GUARDED:
        pull = pull * flat / (flat + guard)
    by_action = tl.load(grad_action + row[:, None] * actions + col[None, :], mask=inside, other=0.0)
    by_density = tl.load(grad_log_prob + row, mask=row < rows, other=0.0)[:, None]
    by_u = by_action * c * flat + by_density * pull
    by_raw = (by_u * tl.exp(log_std) * eps - by_density) * half * (1.0 - bent * bent)
    at = row[:, None] * columns + col[None, :]
    tl.store(grad_head + at, by_u, mask=inside)
    tl.store(grad_head + at + actions, by_raw, mask=inside)


class Draw(torch.autograd.Function):
    """See ``Kernels.draw``."""

    @staticmethod
    def forward(ctx: Any, head: Tensor, noise: Tensor, squash: Squash) -> tuple[Tensor, Tensor]:
        head, noise = head.contiguous(), noise.contiguous()
        rows, actions = noise.shape
        action = torch.empty_like(noise)
        log_prob = torch.empty(rows, device=head.device, dtype=torch.float32)
        low, high = squash.log_std
        half = 0.5 * (high - low)
        ctx.numbers = (rows, head.shape[1], actions, low + half, half, GUARD)
        guarded = squash.log_density is LogDensity.GUARDED
        ctx.sizes = {"GUARDED": guarded, "ROWS": _ROWS, "BLOCK": triton.next_power_of_2(actions)}
        _forward[(triton.cdiv(rows, _ROWS),)](
            head, noise, squash.scale, squash.bias, action, log_prob, *ctx.numbers, HALF_LOG_2PI, **ctx.sizes
        )
        ctx.save_for_backward(head, noise, squash.scale)
        return action, log_prob

    @staticmethod
    def backward(ctx: Any, grad_action: Tensor, grad_log_prob: Tensor) -> tuple[Tensor, None, None]:
        head, noise, scale = ctx.saved_tensors
        grad_head = torch.zeros_like(head)
        _backward[(triton.cdiv(len(head), _ROWS),)](
            head,
            noise,
            scale,
            grad_action.contiguous(),
            grad_log_prob.contiguous(),
            grad_head,
            *ctx.numbers,
            **ctx.sizes,
        )
        return grad_head, None, None
