"""The categorical Bellman target, its cross-entropy with both critics, and that loss's derivative, in one pass.

A next atom i lands at a + s i on the atoms' scale. So atom j gets a share of those i within 1/s of (j - a)/s, and what
lands outside goes to an end: no scatter is needed.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from domain.learning.categorical import Support
from domain.learning.kernels import Bellman, TargetRule

_RULES = {TargetRule.OWN: 0, TargetRule.LOWER_TARGET: 1, TargetRule.LOWER_NEXT: 2}


@triton.jit
def _projected(row, a, s, col, used, atoms):
    """Return the target of the next logits at ``row`` and the mean index of the next distribution."""
    logit = tl.load(row + col, mask=used, other=float("-inf"))
    peak = tl.max(logit, 0)
    mass = tl.where(used, tl.exp(logit - peak), 0.0)
    total = tl.sum(mass, 0)
    mass = mass / total
    top = atoms - 1
    landing = a + s * col
    # A reward that is no number makes no target.
    target = tl.where(col == 0, tl.sum(tl.where(landing < 0.0, mass, 0.0), 0), tl.where(a == a, 0.0, a))
    target += tl.where(col == top, tl.sum(tl.where(landing > top, mass, 0.0), 0), 0.0)
    near = tl.floor(tl.minimum(tl.maximum((col - a) / tl.maximum(s, 1e-6), -2.0 * atoms), 2.0 * atoms)).to(tl.int32)
    # All lands at a where s is 0; else an atom has few neighbours, unless s is small.
    inside = (s == 0.0) & (a >= 0.0) & (a <= top)
    target += tl.where(inside, tl.maximum(1.0 - tl.abs(a - col), 0.0), 0.0)
    reach = tl.minimum(tl.ceil(1.0 / tl.maximum(s, 1e-6)), 3.0 * atoms).to(tl.int32)
    reach = tl.where(s == 0.0, -1, reach)
    for step in range(-reach, reach + 2):
        source = near + step
        known = used & (source >= 0) & (source < atoms)
        share = tl.exp(tl.load(row + source, mask=known, other=float("-inf")) - peak) / total
        place = a + s * source
        weight = tl.maximum(1.0 - tl.abs(place - col), 0.0)
        target += tl.where(known & (place >= 0.0) & (place <= top), share * weight, 0.0)
    return tl.where(used, target, 0.0), tl.sum(mass * col, 0)


@triton.jit
def _cross_entropy(logits, slope, target, col, used, columns):
    """Return the cross-entropy with one critic and store its derivative by the logits."""
    logit = tl.load(logits + col, mask=used, other=float("-inf"))
    peak = tl.max(logit, 0)
    mass = tl.where(used, tl.exp(logit - peak), 0.0)
    total = tl.sum(mass, 0)
    weight = tl.sum(target, 0)
    tl.store(slope + col, tl.where(used, mass / total * weight - target, 0.0), mask=col < columns)
    return tl.sum(tl.where(used, -target * (logit - peak - tl.log(total)), 0.0), 0)


@triton.jit
def _loss(
    logits, next_logits, reward, discount, shift, loss, value, slope,
    logits_row, logits_member, next_row, next_member, columns, atoms, v_min, step,
    SHIFTED: tl.constexpr, RULE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    used = col < atoms
    s = tl.load(discount + row)
    base = v_min
    if SHIFTED:
        base = v_min - tl.load(shift + row)
    a = (tl.load(reward + row) + s * base - v_min) / step
    following = next_logits + row * next_row
    target0, next0 = _projected(following, a, s, col, used, atoms)
    target1, next1 = _projected(following + next_member, a, s, col, used, atoms)
    value0, value1 = tl.sum(target0 * col, 0), tl.sum(target1 * col, 0)
    if RULE == 1:
        first = value0 < value1
    else:
        first = next0 < next1
    if RULE != 0:
        target0 = tl.where(first, target0, target1)
        target1 = target0
        value0 = tl.where(first, value0, value1)
        value1 = value0
    here = logits + row * logits_row
    out = slope + row * 2 * columns
    total = _cross_entropy(here, out, target0, col, used, columns)
    total += _cross_entropy(here + logits_member, out + columns, target1, col, used, columns)
    tl.store(loss + row, total)
    tl.store(value + row, v_min + step * 0.5 * (value0 + value1))


class BellmanLoss(torch.autograd.Function):
    """See ``Kernels.bellman_loss``."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, next_logits: Tensor, bellman: Bellman, support: Support, rule: TargetRule
    ) -> tuple[Tensor, Tensor]:
        rows, _, columns = logits.shape
        slope = torch.empty(rows, 2, columns, device=logits.device, dtype=torch.float32)
        loss, value = torch.empty(2, rows, device=logits.device, dtype=torch.float32).unbind()
        shift = bellman.reward if bellman.shift is None else bellman.shift
        atoms = len(support.atoms)
        block = triton.next_power_of_2(columns)
        _loss[(rows,)](
            logits, next_logits, bellman.reward, bellman.discount, shift, loss, value, slope,
            logits.stride(0), logits.stride(1), next_logits.stride(0), next_logits.stride(1), columns, atoms,
            support.v_min, support.step, SHIFTED=bellman.shift is not None, RULE=_RULES[rule], BLOCK=block,
            num_warps=1 if block <= 128 else 4,
        )  # fmt: skip
        ctx.save_for_backward(slope)
        ctx.mark_non_differentiable(value)
        return loss, value

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return slope * grad[:, None, None], None, None, None, None
