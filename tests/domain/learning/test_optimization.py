"""Optimiser steps: Torch's own AdamW and clipping, steps that are not done, and a falling rate."""

import pytest
import torch

from domain.learning.kernels import AdamWCfg, CosineRate, TorchKernels
from domain.learning.optimization import Stepper
from tests.support.host_sync import ForbidHostSync

FALLING = CosineRate(start=0.2, end=0.1, horizon=2)
LOSS = torch.tensor(1.0)


def adamw(rate: float, *, decay: float = 0.0, limit: float = 0.0, beta2: float = 0.999) -> AdamWCfg:
    """Return settings at a constant rate."""
    constant = CosineRate.constant(rate)
    return AdamWCfg(rate=constant, betas=(0.9, beta2), weight_decay=decay, max_grad_norm=limit)


def test_first_step_of_the_specification() -> None:
    weights = torch.tensor([1.0])

    Stepper(weights, adamw(3e-4, decay=1e-3, beta2=0.95), TorchKernels()).step(LOSS, torch.tensor([0.5]))

    torch.testing.assert_close(weights, torch.tensor([0.9996997]), atol=1e-7, rtol=0)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("beta2", [0.95, 0.999])
def test_twenty_steps_equal_those_of_torch(beta2: float, limit: float, decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(50, generator=generator)
    parameter = torch.nn.Parameter(ours.clone())
    theirs = torch.optim.AdamW([parameter], lr=1e-2, betas=(0.9, beta2), weight_decay=decay)
    step = Stepper(ours, adamw(1e-2, decay=decay, limit=limit, beta2=beta2), TorchKernels())

    for number in range(20):
        # Norms around 7, then around 0.2: some are clipped and some are not.
        gradient = torch.randn(50, generator=generator) * (1.0 if number % 2 else 0.03)
        parameter.grad = gradient.clone()
        if limit:
            torch.nn.utils.clip_grad_norm_([parameter], limit)
        theirs.step()
        norm, active = step.step(LOSS, gradient)
        assert active
        torch.testing.assert_close(norm, torch.linalg.vector_norm(gradient))

    torch.testing.assert_close(ours, parameter.detach(), atol=1e-6, rtol=1e-5)
    state = theirs.state[parameter]
    torch.testing.assert_close(step.state.exp_avg, state["exp_avg"], atol=1e-7, rtol=1e-5)
    torch.testing.assert_close(step.state.exp_avg_sq, state["exp_avg_sq"], atol=1e-7, rtol=1e-5)
    assert step.state.step == 20.0


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_not_done_and_the_next_one_is(where: str, value: float) -> None:
    weights = torch.tensor([1.0, 2.0])
    guarded = Stepper(weights, adamw(3e-4, decay=0.1, limit=1.0), TorchKernels())
    guarded.step(LOSS, torch.tensor([0.5, -0.5]))
    before = [t.clone() for t in (weights, guarded.state.exp_avg, guarded.state.exp_avg_sq, guarded.state.step)]
    broken = torch.tensor(value)

    _, active = guarded.step(
        broken if where == "loss" else LOSS, torch.stack((torch.tensor(0.5), broken if where == "gradient" else LOSS))
    )
    after = [t.clone() for t in (weights, guarded.state.exp_avg, guarded.state.exp_avg_sq, guarded.state.step)]
    _, again = guarded.step(LOSS, torch.tensor([0.5, -0.5]))

    assert not active
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert again
    assert guarded.state.step == 2.0
    assert (weights != before[0]).all()


def test_a_first_step_that_is_not_finite_leaves_numbers() -> None:
    weights = torch.tensor([1.0])
    guarded = Stepper(weights, adamw(3e-4), TorchKernels())

    guarded.step(torch.tensor(torch.nan), torch.tensor([0.5]))

    assert weights.tolist() == [1.0]
    assert guarded.state.exp_avg.tolist() == [0.0]
    assert guarded.state.step == 0.0


def test_each_step_is_as_long_as_the_rate_of_the_steps_before_it() -> None:
    weights = torch.tensor([1.0])
    falling = Stepper(weights, AdamWCfg(rate=FALLING), TorchKernels())
    found = []

    for _ in range(4):
        falling.step(LOSS, torch.tensor([1.0]))
        found.append(weights.clone())

    # Equal gradients make each step as long as its rate: 0.2, 0.15, 0.1, 0.1.
    torch.testing.assert_close(torch.cat(found), torch.tensor([0.8, 0.65, 0.55, 0.45]))


def test_a_step_that_is_not_done_does_not_lower_the_rate() -> None:
    weights = torch.tensor([1.0])
    falling = Stepper(weights, AdamWCfg(rate=FALLING), TorchKernels())

    falling.step(torch.tensor(torch.nan), torch.tensor([1.0]))
    falling.step(LOSS, torch.tensor([1.0]))

    torch.testing.assert_close(weights, torch.tensor([0.8]))


def test_a_step_does_not_wait_for_the_device() -> None:
    stepper = Stepper(torch.ones(3), AdamWCfg(rate=FALLING, max_grad_norm=1.0), TorchKernels())

    with ForbidHostSync():
        stepper.step(LOSS, torch.ones(3))
