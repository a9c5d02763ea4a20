"""Each Triton kernel gives what plain Torch gives, forwards and backwards.

They run on a CUDA device, or, slowly, on the CPU where TRITON_INTERPRET=1 is set and Triton is installed.
"""

import math
import os
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from domain.learning.categorical import Support
from domain.learning.kernels import (
    AdamState,
    AdamWCfg,
    BatchNormState,
    Bellman,
    CosineRate,
    Kernels,
    Squash,
    TargetRule,
    TorchKernels,
    UnitRows,
)
from domain.learning.tanh_gaussian import LogDensity

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="Triton kernels need a CUDA device"),
]
TORCH: Kernels = TorchKernels()


@pytest.fixture
def fused() -> Kernels:
    from adapters.triton_kernels.kernels import TritonKernels

    return TritonKernels()


@pytest.fixture
def random() -> torch.Generator:
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(7)
    return generator


def normal(random: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, device=DEVICE).normal_(generator=random).to(dtype)


def compare(work: Callable[[Kernels], list[Tensor]], fused: Kernels, tolerance: float) -> None:
    for mine, theirs in zip(work(fused), work(TORCH), strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(50, 2, 24), (300, 2, 192), (37, 96), (5, 2, 768)])
@pytest.mark.parametrize("trained", [True, False])
def test_norm_silu(
    fused: Kernels, random: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, trained: bool
) -> None:
    x, grad = normal(random, *shape, dtype=dtype), normal(random, *shape, dtype=dtype)
    parameters = [normal(random, *shape[1:]) for _ in range(3)]

    def work(kernels: Kernels) -> list[Tensor]:
        leaves = [x.clone().requires_grad_(), *(p.clone().requires_grad_(trained) for p in parameters)]
        y = kernels.norm_silu(*leaves)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return [y.detach(), *torch.autograd.grad(y, wanted, grad)]

    # Sums over rows of bfloat16 derivatives differ more than one rounding: Torch rounds each intermediate result.
    compare(work, fused, 1e-4 if dtype == torch.float32 else 0.35)


def test_norm_silu_in_bfloat16_is_closer_to_float32_than_torch_is(fused: Kernels, random: torch.Generator) -> None:
    x, grad = normal(random, 300, 2, 192), normal(random, 300, 2, 192)
    parameters = [normal(random, 2, 192) for _ in range(3)]

    def work(kernels: Kernels, dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_(), *(p.clone().requires_grad_() for p in parameters)]
        y = kernels.norm_silu(*leaves)
        return [t.float() for t in (y.detach(), *torch.autograd.grad(y, leaves, grad.to(dtype)))]

    exact = work(TORCH, torch.float32)
    for mine, theirs, right in zip(work(fused, torch.bfloat16), work(TORCH, torch.bfloat16), exact, strict=True):
        assert (mine - right).norm() <= 1.02 * (theirs - right).norm()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
@pytest.mark.parametrize("shape", [(50, 2, 24), (37, 96), (300, 2, 256)])
@pytest.mark.parametrize("trained", [True, False])
def test_rms_norm(
    fused: Kernels, random: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, trained: bool
) -> None:
    x, grad, gain = normal(random, *shape, dtype=dtype), normal(random, *shape, dtype=dtype), normal(random, *shape[1:])

    def work(kernels: Kernels) -> list[Tensor]:
        leaf, g = x.clone().requires_grad_(), gain.clone().requires_grad_(trained)
        y = kernels.rms_norm(leaf, g)
        return [y.detach(), *torch.autograd.grad(y, [leaf, g] if trained else [leaf], grad)]

    compare(work, fused, tolerance)


@pytest.mark.parametrize("shape", [(50, 2, 24), (130, 2, 64), (37, 96), (400, 2, 256)])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("skip", [True, False])
def test_batch_norm_relu(
    fused: Kernels, random: torch.Generator, shape: tuple[int, ...], batch: bool, skip: bool
) -> None:
    # A mean that is far from 0 against the spread.
    x, grad = normal(random, *shape) + 30.0, normal(random, *shape)
    gain, shift, mean = (normal(random, *shape[1:]) for _ in range(3))
    var = normal(random, *shape[1:]).square() + 0.5
    residual = normal(random, *shape)

    def work(kernels: Kernels) -> list[Tensor]:
        leaf, g, s, r = (t.clone().requires_grad_() for t in (x, gain, shift, residual))
        state = BatchNormState(g, s, mean.clone() + 30.0, var.clone())
        y = kernels.batch_norm_relu(leaf, state, batch, r if skip else None)
        wanted = [leaf, *([g, s] if batch else []), *([r] if skip else [])]
        return [y.detach(), *torch.autograd.grad(y, wanted, grad), state.mean, state.var]

    compare(work, fused, 3e-4)


@pytest.mark.parametrize("members", [None, 2])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_input_norm(
    fused: Kernels, random: torch.Generator, members: int | None, batch: bool, dtype: torch.dtype
) -> None:
    side = () if members is None else (members,)
    x, weight = normal(random, 150, 21) + 30.0, torch.zeros(*side, 5, 24, device=DEVICE, dtype=dtype)
    gain, shift, mean = (normal(random, *side, 21) for _ in range(3))
    var, grad = normal(random, *side, 21).square() + 0.5, normal(random, 150, *side, 24, dtype=dtype)

    def work(kernels: Kernels) -> list[Tensor]:
        leaf, g, s = (t.clone().requires_grad_() for t in (x, gain, shift))
        state = BatchNormState(g, s, mean.clone() + 30.0, var.clone())
        y = kernels.input_norm(leaf, state, batch, weight)
        wanted = [leaf, g, s] if batch else [leaf]
        return [y.detach(), *torch.autograd.grad(y, wanted, grad), state.mean, state.var]

    compare(work, fused, 5e-4 if dtype == torch.float32 else 0.02)


def test_batch_norm_relu_in_bfloat16(fused: Kernels, random: torch.Generator) -> None:
    x, grad = normal(random, 200, 2, 64, dtype=torch.bfloat16), normal(random, 200, 2, 64, dtype=torch.bfloat16)
    ones, zeros = torch.ones(2, 64, device=DEVICE), torch.zeros(2, 64, device=DEVICE)

    def work(kernels: Kernels) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        y = kernels.batch_norm_relu(leaf, BatchNormState(ones, zeros, zeros.clone(), ones.clone()), True)
        return [y.detach(), *torch.autograd.grad(y, [leaf], grad)]

    compare(work, fused, 0.02)


@pytest.mark.parametrize("rule", list(TargetRule))
@pytest.mark.parametrize(("atoms", "columns"), [(101, 104), (51, 51), (2, 8), (501, 504)])
@pytest.mark.parametrize("shifted", [True, False])
def test_bellman_loss(
    fused: Kernels, random: torch.Generator, rule: TargetRule, atoms: int, columns: int, shifted: bool
) -> None:
    rows = 60
    support = Support(-6.0, 5.0, atoms, DEVICE)
    logits, following = 2.0 * normal(random, rows, 2, columns), 2.0 * normal(random, 2 * rows, 2, columns)
    reward, shift = 3.0 * normal(random, rows), normal(random, rows)
    discount = torch.full((rows,), 0.97, device=DEVICE)
    discount[::7], discount[1::7], discount[2::7], discount[3::7] = 0.0, 1.0, 0.3, 0.001
    reward[4], reward[5] = 50.0, -50.0
    grad = normal(random, rows)

    def work(kernels: Kernels) -> list[Tensor]:
        leaf = logits.clone().requires_grad_()
        bellman = Bellman(reward, discount, shift if shifted else None)
        loss, value = kernels.bellman_loss(leaf, following[rows:], bellman, support, rule)
        return [loss.detach(), value, *torch.autograd.grad(loss, [leaf], grad)]

    compare(work, fused, 2e-4)


def test_a_reward_that_is_no_number_makes_its_own_loss_none(fused: Kernels, random: torch.Generator) -> None:
    support = Support(-6.0, 5.0, 51, DEVICE)
    logits = normal(random, 5, 2, 56)
    reward = torch.tensor([0.0, math.inf, math.nan, -math.inf, 1.0], device=DEVICE)
    bellman = Bellman(reward, torch.ones_like(reward))

    loss, _ = fused.bellman_loss(logits, logits, bellman, support, TargetRule.OWN)

    assert torch.isfinite(loss).tolist() == [True, True, False, True, True]
    right, _ = TORCH.bellman_loss(logits, logits, bellman, support, TargetRule.OWN)
    torch.testing.assert_close(loss, right, equal_nan=True)


@pytest.mark.parametrize("form", list(LogDensity))
@pytest.mark.parametrize(("actions", "columns"), [(29, 64), (3, 6), (1, 8)])
def test_draw(fused: Kernels, random: torch.Generator, form: LogDensity, actions: int, columns: int) -> None:
    head, noise = 1.5 * normal(random, 70, columns), normal(random, 70, actions)
    scale, bias = normal(random, actions).abs() + 0.1, normal(random, actions)
    squash = Squash(scale, bias, (-5.0, 1.0), form)
    grads = [normal(random, 70, actions), normal(random, 70)]

    def work(kernels: Kernels, dtype: torch.dtype) -> list[Tensor]:
        leaf = head.to(dtype).requires_grad_()
        outputs = kernels.draw(leaf, noise.to(dtype), replace(squash, scale=scale.to(dtype), bias=bias.to(dtype)))
        found = torch.autograd.grad(outputs, [leaf], [grad.to(dtype) for grad in grads])
        return [tensor.detach().float() for tensor in (*outputs, *found)]

    # Near the ends of tanh float32 has few digits, so the measure is float64.
    for mine, right in zip(work(fused, torch.float32), work(TORCH, torch.float64), strict=True):
        torch.testing.assert_close(mine, right, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("signal", [1.0, math.nan, math.inf])
@pytest.mark.parametrize("rate", [CosineRate.constant(3e-3), CosineRate(start=3e-3, end=1e-3, horizon=5)])
def test_adamw(fused: Kernels, random: torch.Generator, signal: float, rate: CosineRate) -> None:
    weights, gradients = normal(random, 3000), [normal(random, 3000) for _ in range(8)]
    cfg = AdamWCfg(rate=rate, betas=(0.9, 0.95), weight_decay=0.1)
    sign = torch.tensor(signal, device=DEVICE)

    def work(kernels: Kernels) -> list[Tensor]:
        w = weights.clone()
        state = AdamState(torch.zeros_like(w), torch.zeros_like(w), torch.zeros((), device=DEVICE))
        done = [kernels.adamw(w, gradient * signal, state, cfg, sign) for gradient in gradients]
        return [w, state.exp_avg, state.exp_avg_sq, state.step, *done]

    compare(work, fused, 1e-6)
    assert bool(work(fused)[-1]) == math.isfinite(signal)


def test_projection(fused: Kernels, random: torch.Generator) -> None:
    start = normal(random, 4000)

    def work(kernels: Kernels) -> list[Tensor]:
        block = start.clone()
        padded = block[:480].view(2, 15, 16)[:, :13, :11]
        gains, shifts = block[480:600].view(2, 60), block[600:720].view(2, 60)
        groups = [
            UnitRows((padded,), 1.0),
            UnitRows((gains, shifts), math.sqrt(60.0)),
            UnitRows((block[720:1000],), 3.0),
        ]
        kernels.projection(groups)()
        return [block]

    compare(work, fused, 1e-5)
    assert torch.equal(work(fused)[0][1000:], start[1000:])
