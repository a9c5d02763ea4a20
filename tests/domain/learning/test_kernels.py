"""Kernels in plain Torch: targets of twin critics, norms, projections, by hand and beside Torch's own layers."""

import math

import pytest
import torch
from torch import Tensor, nn

from domain.learning.categorical import Support
from domain.learning.kernels import (
    AdamState,
    AdamWCfg,
    BatchNormState,
    Bellman,
    CosineRate,
    TargetRule,
    TorchKernels,
    UnitRows,
)

KERNELS = TorchKernels()
FIVE = Support(-2.0, 2.0, 5, torch.device("cpu"))
P1, P2 = [0.1, 0.2, 0.4, 0.2, 0.1], [0.05, 0.15, 0.4, 0.25, 0.15]
M1, M2 = [0.03, 0.15, 0.32, 0.32, 0.18], [0.015, 0.095, 0.29, 0.35, 0.25]
RULES = list(TargetRule)
FLASHSAC_RATE = CosineRate(start=3e-4, end=1.5e-4, horizon=500_000)


def bellman(rows: int = 1, shift: float | None = None) -> Bellman:
    """Return the map 0.5 + 0.9 (z - shift) of every row."""
    moved = None if shift is None else torch.full((rows,), shift)
    return Bellman(torch.full((rows,), 0.5), torch.full((rows,), 0.9), moved)


def learnt(next_probabilities: Tensor, rule: TargetRule, shift: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return what both critics learn from, which the gradient shows: softmax(logits) - m; then loss and value."""
    logits = torch.randn(next_probabilities.shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    rows = bellman(len(logits), shift)
    loss, value = KERNELS.bellman_loss(logits, next_probabilities.log(), rows, FIVE, rule)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    return torch.softmax(logits.detach(), dim=-1) - gradient, loss.detach(), value


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("rule", [TargetRule.LOWER_TARGET, TargetRule.LOWER_NEXT])
def test_both_critics_learn_from_the_one_that_promises_less(rule: TargetRule, swap: bool) -> None:
    twins = torch.tensor([[P2, P1] if swap else [P1, P2]])

    target, _, value = learnt(twins, rule)

    torch.testing.assert_close(target, torch.tensor([[M1, M1]]), atol=1e-5, rtol=0)
    torch.testing.assert_close(value, torch.tensor([0.47]), atol=1e-5, rtol=0)


def test_without_clipping_each_critic_learns_from_its_own() -> None:
    target, _, value = learnt(torch.tensor([[P1, P2]]), TargetRule.OWN)

    torch.testing.assert_close(target, torch.tensor([[M1, M2]]), atol=1e-5, rtol=0)
    torch.testing.assert_close(value, torch.tensor([(0.47 + 0.725) / 2]), atol=1e-5, rtol=0)


def test_the_lower_one_is_chosen_row_by_row() -> None:
    target, _, _ = learnt(torch.tensor([[P1, P2], [P2, P1]]), TargetRule.LOWER_TARGET)

    torch.testing.assert_close(target, torch.tensor([[M1, M1], [M1, M1]]), atol=1e-5, rtol=0)


def test_choosing_before_the_projection_can_differ_from_choosing_after_it() -> None:
    # Before: means 1.1 and 1. With the map 1 + 0.9 z the first one's mass of 2 is cut off at the support's end.
    tiny = 1e-8
    high = torch.tensor([0.3 - tiny, tiny, tiny, tiny, 0.7 - 2 * tiny])  # mean 0.8
    steady = torch.tensor([tiny, tiny, 0.3 - 2 * tiny, 0.7 - tiny, tiny])  # mean 0.7
    rows = Bellman(torch.tensor([1.0]), torch.tensor([0.9]))
    logits = torch.zeros(1, 2, 5)

    values = {
        rule: KERNELS.bellman_loss(logits, torch.stack((high, steady))[None].log(), rows, FIVE, rule)[1].item()
        for rule in (TargetRule.LOWER_NEXT, TargetRule.LOWER_TARGET)
    }

    # steady: 0.3 * 1 + 0.7 * 1.9 = 1.63. high: 0.3 * -0.8 + 0.7 * 2 = 1.16.
    assert values[TargetRule.LOWER_NEXT] == pytest.approx(1.63, abs=1e-5)
    assert values[TargetRule.LOWER_TARGET] == pytest.approx(1.16, abs=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_the_loss_is_the_sum_of_both_cross_entropies(rule: TargetRule) -> None:
    loss, _ = KERNELS.bellman_loss(torch.zeros(3, 2, 5), torch.randn(3, 2, 5), bellman(3), FIVE, rule)

    torch.testing.assert_close(loss, torch.full((3,), 2 * math.log(5)))


@pytest.mark.parametrize("rule", RULES)
def test_targets_and_values_carry_no_gradient(rule: TargetRule) -> None:
    logits, after = torch.randn(3, 2, 5).requires_grad_(), torch.randn(3, 2, 5).requires_grad_()
    reward, discount, shift = (torch.rand(3).requires_grad_() for _ in range(3))

    loss, value = KERNELS.bellman_loss(logits, after, Bellman(reward, discount, shift), FIVE, rule)
    loss.sum().backward()

    assert logits.grad is not None
    assert not value.requires_grad
    assert all(t.grad is None for t in (after, reward, discount, shift))


@pytest.mark.parametrize("rule", RULES)
def test_columns_beyond_the_atoms_are_ignored(rule: TargetRule) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, after = (torch.randn(3, 2, 8, generator=generator) for _ in range(2))
    wide = KERNELS.bellman_loss(logits.requires_grad_(), after, bellman(3, 0.3), FIVE, rule)
    narrow = KERNELS.bellman_loss(logits[..., :5], after[..., :5], bellman(3, 0.3), FIVE, rule)

    (gradient,) = torch.autograd.grad(wide[0].sum(), logits)

    assert torch.equal(wide[0], narrow[0])
    assert torch.equal(wide[1], narrow[1])
    assert torch.equal(gradient[..., 5:], torch.zeros(3, 2, 3))


@pytest.mark.parametrize("rule", RULES)
def test_a_reward_that_is_not_a_number_spoils_its_own_row_only(rule: TargetRule) -> None:
    rows = Bellman(torch.tensor([torch.nan, 0.5]), torch.full((2,), 0.9))

    loss, value = KERNELS.bellman_loss(torch.zeros(2, 2, 5), torch.zeros(2, 2, 5), rows, FIVE, rule)

    assert loss.isnan().tolist() == [True, False]
    assert value.isnan().tolist() == [True, False]


def test_norm_silu_equals_layers_of_torch() -> None:
    x = torch.randn(6, 5)
    layer = nn.Sequential(nn.LayerNorm(5), nn.SiLU())
    bias, gain, shift = torch.randn(5), torch.randn(5), torch.randn(5)
    layer[0].load_state_dict({"weight": gain, "bias": shift})

    torch.testing.assert_close(KERNELS.norm_silu(x, bias, gain, shift), layer(x + bias).detach())


def test_members_of_norm_silu_have_their_own_numbers() -> None:
    x, bias, gain, shift = torch.randn(6, 2, 5), torch.randn(2, 5), torch.randn(2, 5), torch.randn(2, 5)

    both = KERNELS.norm_silu(x, bias, gain, shift)

    for member in (0, 1):
        alone = KERNELS.norm_silu(x[:, member], bias[member], gain[member], shift[member])
        torch.testing.assert_close(both[:, member], alone)


def state_of(gain: Tensor, shift: Tensor) -> BatchNormState:
    """Return a fresh state: running mean 0 and variance 1."""
    return BatchNormState(gain, shift, torch.zeros_like(gain), torch.ones_like(gain))


def test_batch_statistics_move_the_running_ones_by_a_hundredth() -> None:
    state = state_of(torch.ones(1), torch.zeros(1))

    y = KERNELS.batch_norm_relu(torch.tensor([[1.0], [2.0], [3.0]]), state, True)

    # Population variance 2/3 normalises, the unbiased one, 1, is remembered.
    torch.testing.assert_close(y, torch.tensor([[0.0], [0.0], [1.0 / math.sqrt(2 / 3 + 1e-5)]]))
    torch.testing.assert_close(state.mean, torch.tensor([0.02]))
    torch.testing.assert_close(state.var, torch.tensor([1.0]))


def test_running_statistics_normalise_and_stay() -> None:
    state = BatchNormState(torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([4.0]))

    y = KERNELS.batch_norm_relu(torch.tensor([[5.0], [-5.0]]), state, False, torch.tensor([[10.0], [20.0]]))

    torch.testing.assert_close(y, torch.tensor([[13.0], [20.0]]), atol=1e-4, rtol=0)
    assert (float(state.mean), float(state.var)) == (3.0, 4.0)


def test_members_of_batch_norm_have_their_own_statistics() -> None:
    x = torch.randn(6, 2, 3) * torch.tensor([1.0, 5.0])[:, None]
    both = state_of(torch.rand(2, 3), torch.rand(2, 3))
    y = KERNELS.batch_norm_relu(x, both, True)

    for member in (0, 1):
        alone = state_of(both.gain[member], both.shift[member])
        torch.testing.assert_close(y[:, member], KERNELS.batch_norm_relu(x[:, member], alone, True))
        torch.testing.assert_close(both.mean[member], alone.mean)
        torch.testing.assert_close(both.var[member], alone.var)


def test_rows_are_projected_to_norm_1() -> None:
    weight = torch.tensor([[3.0, 4.0], [0.0, -0.5]])

    KERNELS.projection([UnitRows((weight,), 1.0)])()

    torch.testing.assert_close(weight, torch.tensor([[0.6, 0.8], [0.0, -1.0]]), atol=1e-5, rtol=0)


def test_gains_and_shifts_are_projected_together() -> None:
    gain, shift = torch.tensor([1.0, 2.0, 2.0, 0.0]), torch.tensor([0.0, 0.0, 1.0, 0.0])

    KERNELS.projection([UnitRows((gain, shift), 2.0)])()

    torch.testing.assert_close(gain, 0.6324555 * torch.tensor([1.0, 2.0, 2.0, 0.0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(shift, torch.tensor([0.0, 0.0, 0.6324555, 0.0]), atol=1e-5, rtol=0)


def test_a_row_of_zeros_is_projected_to_zeros() -> None:
    weight = torch.zeros(2, 3)

    KERNELS.projection([UnitRows((weight,), 1.0)])()

    assert torch.equal(weight, torch.zeros(2, 3))


def test_a_projection_holds_whatever_the_rows_become() -> None:
    weight = torch.tensor([[3.0, 4.0]])
    project = KERNELS.projection([UnitRows((weight,), 1.0)])
    project()
    weight.copy_(torch.tensor([[0.0, 7.0]]))

    project()

    torch.testing.assert_close(weight, torch.tensor([[0.0, 1.0]]))


@pytest.mark.parametrize("signal", [0.0, -3.0, torch.nan, torch.inf, -torch.inf])
def test_an_adamw_step_is_done_only_where_its_signal_is_finite(signal: float) -> None:
    weights, state = torch.tensor([1.0]), AdamState(torch.zeros(1), torch.zeros(1), torch.zeros(()))
    cfg = AdamWCfg(rate=CosineRate.constant(0.25))

    done = KERNELS.adamw(weights, torch.tensor([2.0]), state, cfg, torch.tensor(signal))

    assert bool(done) == math.isfinite(signal)
    # Adam's first step is as long as its rate.
    expected = ([0.75], [0.2], [0.004], 1.0) if done else ([1.0], [0.0], [0.0], 0.0)
    found = (weights, state.exp_avg, state.exp_avg_sq, state.step)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, torch.tensor(other))


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 3e-4), (125_000, 2.780330e-4), (250_000, 2.25e-4), (500_000, 1.5e-4), (800_000, 1.5e-4)],
)
def test_rates_of_the_specification(step: int, rate: float) -> None:
    found = FLASHSAC_RATE.at(torch.tensor(float(step)))

    torch.testing.assert_close(found, torch.tensor(rate), atol=1e-9, rtol=0)


def test_a_constant_rate_stays() -> None:
    rate = CosineRate.constant(3e-4)

    torch.testing.assert_close(rate.at(torch.tensor([0.0, 1.0, 1e6])), torch.full((3,), 3e-4))


def test_rms_norm_equals_the_layer_of_torch() -> None:
    x, gain = torch.randn(6, 5), torch.randn(5)
    layer = nn.RMSNorm(5, eps=1e-6)
    layer.load_state_dict({"weight": gain})

    torch.testing.assert_close(KERNELS.rms_norm(x, gain), layer(x).detach())


def test_members_of_rms_norm_have_their_own_gains() -> None:
    x, gain = torch.tensor([[[3.0, 4.0], [3.0, 4.0]]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]])

    # The mean square of (3, 4) is 12.5.
    expected = torch.tensor([[[3.0, 4.0], [6.0, 0.0]]]) / 12.5**0.5
    torch.testing.assert_close(KERNELS.rms_norm(x, gain), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_input_norm_is_padded_and_in_the_type_of_the_matrix(dtype: torch.dtype) -> None:
    state = BatchNormState(torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([4.0]))

    y = KERNELS.input_norm(torch.tensor([[5.0], [-5.0]]), state, False, torch.zeros(6, 3, dtype=dtype))

    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), torch.tensor([[3.0, 0.0, 0.0], [-7.0, 0.0, 0.0]]), atol=1e-4, rtol=0)


def test_members_of_input_norm_see_the_same_rows_with_gains_and_statistics_of_their_own() -> None:
    x, both = torch.randn(6, 3), state_of(torch.rand(2, 3), torch.rand(2, 3))

    y = KERNELS.input_norm(x, both, True, torch.zeros(2, 4, 3))

    for member in (0, 1):
        alone = state_of(both.gain[member], both.shift[member])
        torch.testing.assert_close(y[:, member], KERNELS.input_norm(x, alone, True, torch.zeros(4, 3)))
        torch.testing.assert_close(both.mean[member], alone.mean)
    # A hundredth of the batch's mean, and of its unbiased variance beside 0.99.
    torch.testing.assert_close(both.mean[0], 0.01 * x.mean(dim=0))
    torch.testing.assert_close(both.var[0], 0.99 + 0.01 * x.var(dim=0))
