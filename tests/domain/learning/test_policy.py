"""From a network's output to actions: bounds, the middle, samples, and gradients through them."""

import math

import pytest
import torch

from domain.learning.policy import ActionBounds, TanhGaussian
from domain.learning.tanh_gaussian import LogDensity

CPU = torch.device("cpu")
FORMS = list(LogDensity)
TABLE = [
    # mu, ls, eps, scale, action, guarded, stable
    (0.3, -1.0, 0.5, 1.0, 0.4493932, 0.1816476, 0.1816509),
    (0.3, -1.0, 0.5, 2.0, 0.8987865, -0.5114981, -0.5114963),
    (0.0, 0.0, 0.0, 1.0, 0.0, -0.9189405, -0.9189385),
]


def policy(*bounds: tuple[float, float], middle: float = -2.5, form: LogDensity = FORMS[0]) -> TanhGaussian:
    """Return a policy whose log standard deviation is ``middle`` at the raw value 0, and lies within 2.5 of it."""
    low, high = zip(*bounds, strict=True)
    return TanhGaussian(ActionBounds(low, high), (middle - 2.5, middle + 2.5), form)


@pytest.mark.parametrize("row", TABLE)
def test_actions_and_log_densities_of_the_specification(row: tuple[float, ...]) -> None:
    mu, log_std, eps, scale, action, guarded, stable = row
    for form, expected in ((LogDensity.GUARDED, guarded), (LogDensity.STABLE, stable)):
        gaussian = policy((-scale, scale), middle=log_std, form=form)

        drawn, log_prob = gaussian.draw(torch.tensor([[mu, 0.0]]), torch.tensor([[eps]]))

        torch.testing.assert_close(drawn, torch.tensor([[action]]), atol=1e-5, rtol=0)
        torch.testing.assert_close(log_prob, torch.tensor([expected]), atol=1e-5, rtol=0)


def test_a_saturated_mean_gives_the_end_of_the_bounds() -> None:
    drawn, _ = policy((-1.0, 1.0)).draw(torch.tensor([[10.0, 0.0]]), torch.zeros(1, 1))

    assert drawn.tolist() == [[1.0]]


def test_bounds_map_the_ends_and_the_middle() -> None:
    bounds = ActionBounds((-1.0, 0.0), (3.0, 0.5))
    unit = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])

    assert bounds.denormalize(unit).tolist() == [[-1.0, 0.0], [1.0, 0.25], [3.0, 0.5]]


def test_the_density_of_an_action_does_not_depend_on_where_its_bounds_lie() -> None:
    head, noise = torch.tensor([[0.5, 0.3]]), torch.tensor([[1.5]])

    assert torch.equal(policy((-2.0, 2.0)).draw(head, noise)[1], policy((3.0, 7.0)).draw(head, noise)[1])


def test_middle_ignores_the_spread_and_columns_that_a_network_added() -> None:
    head = torch.tensor([[0.5, 3.0, 99.0], [0.5, -3.0, -99.0]])

    torch.testing.assert_close(policy((-2.0, 2.0)).middle(head), torch.full((2, 1), 2 * math.tanh(0.5)))


@pytest.mark.parametrize("form", FORMS)
def test_sample_is_the_action_of_draw(form: LogDensity) -> None:
    gaussian = policy((-2.0, 2.0), (0.0, 1.0), form=form)
    head, noise = torch.tensor([[0.5, -1.0, 0.2, -0.3, 99.0]]), torch.tensor([[1.5, -0.5]])

    assert torch.equal(gaussian.sample(head, noise), gaussian.draw(head, noise)[0])


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_mean_and_spread_through_the_action(form: LogDensity) -> None:
    head = torch.zeros(1, 2, requires_grad=True)

    action, _ = policy((-1.0, 1.0), form=form).draw(head, torch.tensor([[2.0]]))
    (gradient,) = torch.autograd.grad(action.sum(), head)

    # da/dmu = 1 - tanh(u)^2 with u = 2 exp(-2.5); da/draw = that * u * dls/draw, 2.5 at 0.
    u = 2 * math.exp(-2.5)
    slope = 1 - math.tanh(u) ** 2
    torch.testing.assert_close(gradient, torch.tensor([[slope, slope * u * 2.5]]))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_the_density_are_those_by_hand(form: LogDensity) -> None:
    head = torch.zeros(1, 3, requires_grad=True)

    _, log_prob = policy((-1.0, 1.0), form=form).draw(head, torch.tensor([[2.0]]))
    (gradient,) = torch.autograd.grad(log_prob.sum(), head)

    # d(-log(1 - tanh(u)^2))/du = 2 tanh(u), d(-ls)/draw = -2.5; the third column was added by a network.
    u = 2 * math.exp(-2.5)
    expected = torch.tensor([[2 * math.tanh(u), 2 * math.tanh(u) * u * 2.5 - 2.5, 0.0]])
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=0)
