"""Norms of rows and their derivatives: SiLU(LayerNorm(x + bias) gain + shift), and the plain x / rms(x) gain."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ELEMENTS = 256  # of a row, for each warp that works on it
_ROWS = 4  # of a program, forwards
_PARTS = 396  # programs a member, backwards, for rows of four warps


@triton.jit
def _forward(
    x, bias, gain, shift, out, mean, rstd, samples, members, width, eps,
    LAYER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (p, e) does some rows of member e, one after the other."""
    member = tl.program_id(1)
    col = tl.arange(0, BLOCK)
    used = col < width
    own = member * width + col
    weight = tl.load(gain + own, mask=used, other=0.0)
    if LAYER:
        offset = tl.load(bias + own, mask=used, other=0.0)
        lift = tl.load(shift + own, mask=used, other=0.0)
    first = tl.program_id(0) * ROWS
    for sample in range(first, tl.minimum(first + ROWS, samples)):
        row = sample * members + member
        value = tl.load(x + row * width + col, mask=used, other=0.0).to(tl.float32)
        if LAYER:
            value += offset
            centre = tl.sum(value, 0) / width
            tl.store(mean + row, centre)
            value = tl.where(used, value - centre, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) / width + eps)
        tl.store(rstd + row, scale)
        y = value * scale * weight
        if LAYER:
            y += lift
            y = y * tl.sigmoid(y)
        tl.store(out + row * width + col, y.to(out.dtype.element_ty), mask=used)


@triton.jit
def _backward(
    x, bias, gain, shift, mean, rstd, grad, grad_x, parts, samples, members, width,
    LAYER: tl.constexpr, WITH_PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program (p, e) does every so-many-th row of member e, and sums its parameters' derivatives."""
    member = tl.program_id(1)
    col = tl.arange(0, BLOCK)
    used = col < width
    own = member * width + col
    weight = tl.load(gain + own, mask=used, other=0.0)
    if LAYER:
        offset = tl.load(bias + own, mask=used, other=0.0)
        lift = tl.load(shift + own, mask=used, other=0.0)
    sum_gain = tl.zeros((BLOCK,), tl.float32)
    sum_bias = tl.zeros((BLOCK,), tl.float32)
    sum_shift = tl.zeros((BLOCK,), tl.float32)
    for sample in range(tl.program_id(0), samples, tl.num_programs(0)):
        row = sample * members + member
        value = tl.load(x + row * width + col, mask=used, other=0.0).to(tl.float32)
        dz = tl.load(grad + row * width + col, mask=used, other=0.0).to(tl.float32)
        scale = tl.load(rstd + row)
        if LAYER:
            value += offset - tl.load(mean + row)
        normal = tl.where(used, value * scale, 0.0)
        if LAYER:
            z = normal * weight + lift
            gate = tl.sigmoid(z)
            dz = dz * gate * (1.0 + z * (1.0 - gate))
        dn = dz * weight
        dx = dn - normal * (tl.sum(dn * normal, 0) / width)
        if LAYER:
            dx -= tl.sum(dn, 0) / width
        dx = tl.where(used, dx * scale, 0.0)
        tl.store(grad_x + row * width + col, dx.to(grad_x.dtype.element_ty), mask=used)
        if WITH_PARTS:
            sum_gain += dz * normal
            if LAYER:
                sum_bias += dx
                sum_shift += dz
    if WITH_PARTS:
        size = members * width
        if LAYER:
            place = parts + tl.program_id(0) * 3 * size + own
            tl.store(place + size, sum_bias, mask=used)
            tl.store(place + 2 * size, sum_shift, mask=used)
        else:
            place = parts + tl.program_id(0) * size + own
        tl.store(place, sum_gain, mask=used)


class RowNorm(torch.autograd.Function):
    """``Kernels.norm_silu``, or ``Kernels.rms_norm`` where there is no bias and no shift."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, shift: Tensor | None, eps: float) -> Tensor:
        x = x.contiguous()
        samples, members, width, block, warps = _sizes(x, gain)
        out = torch.empty_like(x)
        mean, rstd = torch.empty(2, samples * members, device=x.device, dtype=torch.float32).unbind()
        # Without bias the kernel reads none: any tensor stands for it.
        bias, shift, layer = (gain, gain, False) if bias is None or shift is None else (bias, shift, True)
        _forward[(triton.cdiv(samples, _ROWS), members)](
            x, bias, gain, shift, out, mean, rstd, samples, members, width, eps,
            LAYER=layer, ROWS=_ROWS, BLOCK=block, num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(x, bias, gain, shift, mean, rstd)
        ctx.layer = layer
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, gain, shift, mean, rstd = ctx.saved_tensors
        wanted = any(ctx.needs_input_grad[1:4])
        samples, members, width, block, warps = _sizes(x, gain)
        grad_x = torch.empty_like(x)
        programs = min(samples, 4 * _PARTS // warps if wanted else triton.cdiv(samples, _ROWS))
        shape = (programs if wanted else 0, 3 if ctx.layer else 1, *gain.shape)
        parts = torch.empty(shape, device=x.device, dtype=torch.float32)
        _backward[(programs, members)](
            x, bias, gain, shift, mean, rstd, grad.contiguous(), grad_x, parts, samples, members, width,
            LAYER=ctx.layer, WITH_PARTS=wanted, BLOCK=block, num_warps=warps,
        )  # fmt: skip
        if not wanted:
            return grad_x, None, None, None, None
        # A product sums faster than a reduction over the first axis.
        sums = (parts.new_ones(programs) @ parts.flatten(1)).view(parts.shape[1:])
        return grad_x, *(sums.unbind() if ctx.layer else (sums[0], None, None)), None


def _sizes(x: Tensor, gain: Tensor) -> tuple[int, int, int, int, int]:
    """Return samples, members, width, columns of a program and its warps."""
    width = x.shape[-1]
    members = gain.numel() // width
    block = triton.next_power_of_2(width)
    return x.numel() // width // members, members, width, block, min(max(block // _ELEMENTS, 1), 8)
