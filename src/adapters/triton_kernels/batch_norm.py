"""Batch norm over columns, with batch or running statistics, and its derivative.

It comes in two forms: between layers, residual + ReLU(BatchNorm(x)); and before the first, where all members share one
input and each row is padded to the columns of the matrix that follows. Column ``col`` of the result is column
``col % padded`` of member ``col // padded``; between layers all members' columns count as those of one.

Statistics are sums of x less its first row, so that a mean far from 0 costs no digits. A pass leaves one partial sum
for each split of the rows; the pass after it adds them up.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from domain.learning.kernels import BATCH_EPSILON, BATCH_MOMENTUM, BatchNormState

_SIZES = {"SPLITS": 16, "ROWS": 64, "COLUMNS": 64, "num_warps": 4}


@triton.jit
def _sums(x, parts, rows, columns, SPLITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    used = col < columns
    first = tl.load(x + col, mask=used, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, SPLITS * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & used[None, :]
        value = tl.load(x + row[:, None] * columns + col[None, :], mask=inside, other=0.0).to(tl.float32)
        delta = tl.where(inside, value - first[None, :], 0.0)
        total += delta
        squares += delta * delta
    place = parts + tl.program_id(1) * 2 * columns + col
    tl.store(place, tl.sum(total, 0), mask=used)
    tl.store(place + columns, tl.sum(squares, 0), mask=used)


@triton.jit
def _added(parts, col, columns, used, SPLITS: tl.constexpr):
    split = tl.arange(0, SPLITS)
    place = parts + split[:, None] * 2 * columns + col[None, :]
    return (
        tl.sum(tl.load(place, mask=used[None, :], other=0.0), 0),
        tl.sum(tl.load(place + columns, mask=used[None, :], other=0.0), 0),
    )


@triton.jit
def _columns(columns, padded, width, COLUMNS: tl.constexpr, BETWEEN: tl.constexpr):
    """Return columns of the result, their places among parameters and in x, and which are no padding."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    if BETWEEN:
        return col, col, col, col < columns
    within = col % padded
    return col, col // padded * width + within, within, (col < columns) & (within < width)


@triton.jit
def _apply(
    x, residual, gain, shift, running_mean, running_var, parts, out, mean, rstd,
    rows, columns, padded, width, x_columns, momentum, eps,
    BATCH: tl.constexpr, RESIDUAL: tl.constexpr, BETWEEN: tl.constexpr,
    SPLITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    col, own, source, used = _columns(columns, padded, width, COLUMNS, BETWEEN)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < rows)[:, None] & used[None, :]
    value = tl.load(x + row[:, None] * x_columns + source[None, :], mask=inside, other=0.0).to(tl.float32)
    if BATCH:
        total, squares = _added(parts, source, x_columns, used, SPLITS)
        offset = total / rows
        centre = tl.load(x + source, mask=used, other=0.0).to(tl.float32) + offset
        var = squares / rows - offset * offset
        var = tl.where(var < 0.0, 0.0, var)
    else:
        centre = tl.load(running_mean + own, mask=used, other=0.0)
        var = tl.load(running_var + own, mask=used, other=0.0)
    scale = 1.0 / tl.sqrt(var + eps)
    if tl.program_id(1) == 0:
        tl.store(mean + own, centre, mask=used)
        tl.store(rstd + own, scale, mask=used)
        if BATCH:
            old = tl.load(running_mean + own, mask=used, other=0.0)
            new = old + momentum * (centre - old)
            tl.store(running_mean + own, new, mask=used & (new - new == 0.0))
            old = tl.load(running_var + own, mask=used, other=0.0)
            new = old + momentum * (var * rows / (rows - 1) - old)
            tl.store(running_var + own, new, mask=used & (new - new == 0.0))
    normal = (value - centre[None, :]) * scale[None, :]
    weight = tl.load(gain + own, mask=used, other=0.0)
    y = normal * weight[None, :] + tl.load(shift + own, mask=used, other=0.0)[None, :]
    at = row[:, None] * columns + col[None, :]
    if BETWEEN:
        # Not a maximum: what is not a number stays so.
        y = tl.where(y < 0.0, 0.0, y)
    if RESIDUAL:
        y += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    real = (row < rows)[:, None] & (col < columns)[None, :]
    tl.store(out + at, tl.where(inside, y, 0.0).to(out.dtype.element_ty), mask=real)


@triton.jit
def _derivative(x, grad, x_at, at, inside, centre, scale, weight, lift, BETWEEN: tl.constexpr):
    """Return the normalised values and the derivative by the batch norm's output."""
    normal = (tl.load(x + x_at, mask=inside, other=0.0).to(tl.float32) - centre[None, :]) * scale[None, :]
    dy = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    if BETWEEN:
        dy = tl.where(normal * weight[None, :] + lift[None, :] > 0.0, dy, 0.0)
    return normal, tl.where(inside, dy, 0.0)


@triton.jit
def _grad_sums(
    x, grad, gain, shift, mean, rstd, parts, rows, columns, padded, width, x_columns,
    BETWEEN: tl.constexpr, SPLITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    col, own, source, used = _columns(columns, padded, width, COLUMNS, BETWEEN)
    centre = tl.load(mean + own, mask=used, other=0.0)
    scale = tl.load(rstd + own, mask=used, other=0.0)
    weight = tl.load(gain + own, mask=used, other=0.0)
    lift = tl.load(shift + own, mask=used, other=0.0)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    products = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, SPLITS * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & used[None, :]
        x_at = row[:, None] * x_columns + source[None, :]
        at = row[:, None] * columns + col[None, :]
        normal, dy = _derivative(x, grad, x_at, at, inside, centre, scale, weight, lift, BETWEEN)
        total += dy
        products += dy * normal
    place = parts + tl.program_id(1) * 2 * columns + col
    tl.store(place, tl.sum(total, 0), mask=used)
    tl.store(place + columns, tl.sum(products, 0), mask=used)


@triton.jit
def _grad_apply(
    x, grad, gain, shift, mean, rstd, parts, grad_x, grad_gain, grad_shift,
    rows, columns, padded, width, x_columns, BATCH: tl.constexpr, BETWEEN: tl.constexpr,
    SPLITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    col, own, source, used = _columns(columns, padded, width, COLUMNS, BETWEEN)
    centre = tl.load(mean + own, mask=used, other=0.0)
    scale = tl.load(rstd + own, mask=used, other=0.0)
    weight = tl.load(gain + own, mask=used, other=0.0)
    lift = tl.load(shift + own, mask=used, other=0.0)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < rows)[:, None] & used[None, :]
    x_at = row[:, None] * x_columns + source[None, :]
    at = row[:, None] * columns + col[None, :]
    normal, dy = _derivative(x, grad, x_at, at, inside, centre, scale, weight, lift, BETWEEN)
    if BATCH:
        total, products = _added(parts, col, columns, used, SPLITS)
        if tl.program_id(1) == 0:
            tl.store(grad_shift + own, total, mask=used)
            tl.store(grad_gain + own, products, mask=used)
        dy = dy - (total / rows)[None, :] - normal * (products / rows)[None, :]
    tl.store(grad_x + at, (dy * (weight * scale)[None, :]).to(grad_x.dtype.element_ty), mask=inside)


class BatchNorm(torch.autograd.Function):
    """``Kernels.batch_norm_relu`` where ``like`` is None, else ``Kernels.input_norm`` for the matrix ``like``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, residual: Tensor | None, state: BatchNormState, *form: Any
    ) -> Tensor:
        batch, like = form
        x = x.contiguous()
        rows, x_columns = len(x), x[0].numel()
        if like is None:
            out = torch.empty_like(x)
            ctx.shape = (x_columns, x_columns, x_columns, x_columns)
        else:
            padded, members = like.shape[-1], gain.numel() // x_columns
            out = torch.empty(rows, *gain.shape[:-1], padded, device=x.device, dtype=like.dtype)
            ctx.shape = (members * padded, padded, x_columns, x_columns)
        mean, rstd = torch.empty(2, gain.numel(), device=x.device, dtype=torch.float32).unbind()
        parts = torch.empty(_SIZES["SPLITS"] if batch else 0, 2, x_columns, device=x.device, dtype=torch.float32)
        if batch:
            _sums[(triton.cdiv(x_columns, _SIZES["COLUMNS"]), _SIZES["SPLITS"])](x, parts, rows, x_columns, **_SIZES)
        _apply[_grid(rows, ctx.shape[0])](
            x, x if residual is None else residual.contiguous(), gain, shift, state.mean, state.var, parts, out, mean,
            rstd, rows, *ctx.shape, BATCH_MOMENTUM, BATCH_EPSILON,
            BATCH=batch, RESIDUAL=residual is not None, BETWEEN=like is None, **_SIZES,
        )  # fmt: skip
        ctx.save_for_backward(x, gain, shift, mean, rstd)
        ctx.batch, ctx.between = batch, like is None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, shift, mean, rstd = ctx.saved_tensors
        rows, columns = len(x), ctx.shape[0]
        grad = grad.contiguous()
        grad_x = torch.empty(grad.shape, device=x.device, dtype=x.dtype)
        grad_gain, grad_shift = torch.empty_like(gain), torch.empty_like(shift)
        parts = torch.empty(_SIZES["SPLITS"] if ctx.batch else 0, 2, columns, device=x.device, dtype=torch.float32)
        if ctx.batch:
            _grad_sums[(triton.cdiv(columns, _SIZES["COLUMNS"]), _SIZES["SPLITS"])](
                x, grad, gain, shift, mean, rstd, parts, rows, *ctx.shape, BETWEEN=ctx.between, **_SIZES
            )
        _grad_apply[_grid(rows, columns)](
            x, grad, gain, shift, mean, rstd, parts, grad_x, grad_gain, grad_shift, rows, *ctx.shape,
            BATCH=ctx.batch, BETWEEN=ctx.between, **_SIZES,
        )  # fmt: skip
        by_x: Tensor | None = grad_x
        if not ctx.between:
            members = grad_x.view(rows, -1, grad.shape[-1])[..., : x.shape[-1]]
            by_x = members.sum(dim=1) if ctx.needs_input_grad[0] else None
        gains = (grad_gain, grad_shift) if ctx.batch else (None, None)
        return by_x, *gains, grad if ctx.needs_input_grad[3] else None, None, None, None


def _grid(rows: int, columns: int) -> tuple[int, int]:
    return triton.cdiv(columns, _SIZES["COLUMNS"]), triton.cdiv(rows, _SIZES["ROWS"])
