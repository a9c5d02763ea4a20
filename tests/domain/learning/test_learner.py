"""What a learner's plan refuses."""

from dataclasses import replace

import pytest

from domain.errors import ConfigurationError
from tests.support.learners import PLAN


@pytest.mark.parametrize("envs", [0, -1])
def test_a_plan_needs_an_environment(envs: int) -> None:
    with pytest.raises(ConfigurationError, match=f"num_envs is {envs}"):
        replace(PLAN, num_envs=envs)


@pytest.mark.parametrize(
    ("low", "high", "counts"),
    [
        ((-1.0,), (1.0, 1.0), "1 lower and 2 upper action bounds for 2 actions"),
        ((-1.0, -1.0), (1.0,), "2 lower and 1 upper action bounds for 2 actions"),
        ((-1.0,) * 3, (1.0,) * 3, "3 lower and 3 upper action bounds for 2 actions"),
        ((), (), "0 lower and 0 upper action bounds for 2 actions"),
    ],
)
def test_every_action_needs_a_pair_of_bounds(low: tuple[float, ...], high: tuple[float, ...], counts: str) -> None:
    with pytest.raises(ConfigurationError, match=counts):
        replace(PLAN, action_low=low, action_high=high)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, -1.0),
        (0.5, 0.5),
        (float("-inf"), 1.0),
        (-1.0, float("inf")),
        (float("nan"), 1.0),
        (-1.0, float("nan")),
    ],
)
def test_bounds_are_finite_and_in_order(low: float, high: float) -> None:
    with pytest.raises(ConfigurationError, match="action 1 is bounded by .*finite bounds, low below high"):
        replace(PLAN, action_low=(-1.0, low), action_high=(1.0, high))


def test_bounds_may_differ_by_action_and_leave_out_zero() -> None:
    assert replace(PLAN, action_low=(2.0, -0.5), action_high=(3.0, 0.25)).action_high == (3.0, 0.25)
