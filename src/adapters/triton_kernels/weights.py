"""What happens to a block of weights after a gradient: the AdamW step and the projection of rows onto their norms."""

import math
from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from domain.learning.kernels import ADAM_EPSILON, NORM_EPSILON, AdamState, AdamWCfg, UnitRows

_BLOCK = 1024


@triton.jit
def _adamw(
    weights, gradient, exp_avg, exp_avg_sq, steps, signal, done, size, rate_end, rate_half, slowness,
    beta1, beta2, log_beta1, log_beta2, decay, eps, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sign = tl.load(signal)
    finite = (sign - sign == 0.0).to(tl.int32)
    if tl.program_id(0) == 0:
        tl.store(done, finite.to(tl.uint8))
    go = at < size * finite
    g = tl.load(gradient + at, mask=go, other=0.0)
    first = tl.load(exp_avg + at, mask=go, other=0.0)
    first += (1.0 - beta1) * (g - first)
    second = tl.load(exp_avg_sq + at, mask=go, other=0.0)
    second += (1.0 - beta2) * (g * g - second)
    before = tl.load(steps)
    rate = rate_end + rate_half + rate_half * tl.cos(tl.minimum(before * slowness, 3.14159265358979))
    # In double, because 1 - beta^step begins with a difference of almost equal numbers.
    step = before.to(tl.float64) + 1.0
    bias1 = (1.0 - tl.exp(step * log_beta1)).to(tl.float32)
    bias2 = (1.0 - tl.exp(step * log_beta2)).to(tl.float32)
    w = tl.load(weights + at, mask=go, other=0.0) * (1.0 - rate * decay)
    w -= rate * (first / bias1) / (tl.sqrt(second / bias2) + eps)
    tl.store(exp_avg + at, first, mask=go)
    tl.store(exp_avg_sq + at, second, mask=go)
    tl.store(weights + at, w, mask=go)


def adamw(weights: Tensor, gradient: Tensor, state: AdamState, cfg: AdamWCfg, signal: Tensor) -> Tensor:
    """See ``Kernels.adamw``."""
    size, rate = weights.numel(), cfg.rate
    beta1, beta2 = cfg.betas
    done = torch.empty((), device=weights.device, dtype=torch.bool)
    _adamw[(triton.cdiv(size, _BLOCK),)](
        weights, gradient, state.exp_avg, state.exp_avg_sq, state.step, signal, done.view(torch.uint8), size,
        rate.end, 0.5 * (rate.start - rate.end), math.pi / rate.horizon,
        beta1, beta2, math.log(beta1), math.log(beta2), cfg.weight_decay, ADAM_EPSILON, BLOCK=_BLOCK,
    )  # fmt: skip
    state.step.add_(done)
    return done


@triton.jit
def _project(block, places, norms, eps, BLOCK: tl.constexpr):
    """One row a program; ``places`` holds the starts of its one or two parts (-1 for none) and their width."""
    row = tl.program_id(0)
    start = tl.load(places + 3 * row)
    other = tl.load(places + 3 * row + 1)
    width = tl.load(places + 3 * row + 2)
    at = tl.arange(0, BLOCK)
    first = tl.load(block + start + at, mask=at < width, other=0.0)
    second = tl.load(block + other + at, mask=(at < width) & (other >= 0), other=0.0)
    factor = tl.load(norms + row) / tl.sqrt(tl.sum(first * first + second * second, 0) + eps)
    tl.store(block + start + at, first * factor, mask=at < width)
    tl.store(block + other + at, second * factor, mask=(at < width) & (other >= 0))


def projection(rows: Sequence[UnitRows]) -> Callable[[], None]:
    """See ``Kernels.projection``; all weights must lie in one storage."""
    storage = rows[0].weights[0].untyped_storage()
    block = rows[0].weights[0].new_empty(0).set_(storage)
    places, norms, widest = [], [], 0
    for group in rows:
        starts = [_starts(weight) for weight in group.weights]
        if len(starts) == 1:
            starts.append(torch.full_like(starts[0], -1))
        width = group.weights[0].shape[-1]
        places.append(torch.stack([*starts, torch.full_like(starts[0], width)], dim=1))
        norms.append(torch.full((len(starts[0]),), group.norm))
        widest = max(widest, width)
    table = torch.cat(places).to(torch.int32).to(block.device)
    targets = torch.cat(norms).to(block.device)

    def project() -> None:
        _project[(len(table),)](block, table, targets, NORM_EPSILON, BLOCK=triton.next_power_of_2(widest))

    return project


def _starts(weight: Tensor) -> Tensor:
    """Return where each row of a view begins in its storage."""
    starts = torch.tensor([weight.storage_offset()])
    for size, stride in zip(weight.shape[:-1], weight.stride()[:-1], strict=True):
        starts = (starts[:, None] + torch.arange(size) * stride).flatten()
    return starts
