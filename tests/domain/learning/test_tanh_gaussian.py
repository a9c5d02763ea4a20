"""Density of squashed Gaussian actions: the table of the specification in both forms, and what happens far out."""

import math

import pytest
import torch

from domain.learning.tanh_gaussian import LogDensity, bounded_log_std, log_density

GUARDED, STABLE = LogDensity.GUARDED, LogDensity.STABLE


def density(form: LogDensity, *numbers: float, dtype: torch.dtype = torch.float64) -> float:
    """Return the log-density of one action, from u, noise, log_std and scale."""
    u, noise, log_std, scale = torch.tensor(numbers, dtype=dtype)[:, None]
    return log_density(u, noise, log_std, scale, form).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("numbers", "guarded", "stable"),
    [
        ((0.4839397, 0.5, -1.0, 1.0), 0.1816476, 0.1816509),
        ((0.4839397, 0.5, -1.0, 2.0), -0.5114981, -0.5114963),
        ((0.0, 0.0, 0.0, 1.0), -0.9189405, -0.9189385),
    ],
)
def test_log_densities_of_the_specification(
    numbers: tuple[float, ...], guarded: float, stable: float, dtype: torch.dtype
) -> None:
    assert density(GUARDED, *numbers, dtype=dtype) == pytest.approx(guarded, abs=1e-5)
    assert density(STABLE, *numbers, dtype=dtype) == pytest.approx(stable, abs=1e-5)


@pytest.mark.parametrize(("u", "scale"), [(0.4839397, 1.0), (0.4839397, 2.0), (0.0, 1.0)])
def test_the_two_forms_differ_by_both_guards_alone(u: float, scale: float) -> None:
    difference = density(STABLE, u, 0.5, -1.0, scale) - density(GUARDED, u, 0.5, -1.0, scale)

    guards = math.log1p(1e-6 / (1 - math.tanh(u) ** 2)) + math.log1p(1e-6 / scale)
    assert difference == pytest.approx(guards, abs=1e-12)


@pytest.mark.parametrize(("form", "expected"), [(GUARDED, 15.3884), (STABLE, 20.1948)])
def test_log_density_of_a_saturated_action(form: LogDensity, expected: float) -> None:
    assert density(form, 10.0, 0.0, -2.5, 1.0) == pytest.approx(expected, abs=1e-4)


def test_the_stable_form_stays_finite_far_out() -> None:
    u = torch.tensor([[80.0], [-80.0]], requires_grad=True)
    found = log_density(u, torch.zeros(2, 1), torch.zeros(2, 1), torch.ones(1), STABLE)
    (gradient,) = torch.autograd.grad(found.sum(), u)

    # log(1 - tanh(u)^2) = 2 log 2 - 2 |u|: the density grows by 2 for each unit.
    torch.testing.assert_close(found.detach(), torch.full((2,), 160.0 - 2 * math.log(2) - 0.9189385))
    torch.testing.assert_close(gradient, torch.tensor([[2.0], [-2.0]]))


@pytest.mark.parametrize("form", [GUARDED, STABLE])
def test_densities_of_actions_add_up(form: LogDensity) -> None:
    u, noise, log_std, scale = (torch.tensor(row) for row in ([0.4, -0.1], [0.5, 2.0], [-1.0, 0.3], [1.0, 2.0]))

    found = log_density(u[None], noise[None], log_std[None], scale, form)

    rows = zip(u.tolist(), noise.tolist(), log_std.tolist(), scale.tolist(), strict=True)
    assert float(found) == pytest.approx(sum(density(form, *row) for row in rows), abs=1e-5)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(-5.0, 0.0, (-4.40399, -2.5, -0.59601)), (-10.0, 2.0, (-8.56956, -4.0, 0.56956))],
)
def test_log_std_is_squashed_between_its_bounds(low: float, high: float, expected: tuple[float, ...]) -> None:
    squashed = bounded_log_std(torch.tensor([-1.0, 0.0, 1.0]), low, high)

    torch.testing.assert_close(squashed, torch.tensor(expected), atol=1e-5, rtol=0)


def test_log_std_reaches_its_bounds_and_never_leaves_them() -> None:
    assert bounded_log_std(torch.tensor([-1e6, 1e6]), -5.0, 0.0).tolist() == [-5.0, 0.0]
