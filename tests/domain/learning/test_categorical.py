"""Projection of value distributions: tables by hand, and what holds for every distribution."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from domain.learning.categorical import Support, cross_entropy

CPU = torch.device("cpu")
FIVE = Support(-2.0, 2.0, 5, CPU)
P = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1]])


def project(p: Tensor, reward: float, discount: float, shift: float | None = None, on: Support = FIVE) -> Tensor:
    """Project every row of ``p`` with the same numbers."""
    rows = len(p)
    moved = None if shift is None else torch.full((rows,), shift)
    return on.project(p, torch.full((rows,), reward), torch.full((rows,), discount), moved)


@pytest.mark.parametrize(
    ("reward", "discount", "shift", "expected", "mean"),
    [
        (0.5, 0.9, 0.0, [0.03, 0.15, 0.32, 0.32, 0.18], 0.47),
        (0.5, 0.9, 0.3, [0.057, 0.177, 0.374, 0.266, 0.126], 0.227),
        (0.37, 0.0, 0.0, [0.0, 0.0, 0.63, 0.37, 0.0], 0.37),
        (5.0, 0.9, 0.0, [0.0, 0.0, 0.0, 0.0, 1.0], 2.0),
        (-5.0, 0.9, 0.0, [1.0, 0.0, 0.0, 0.0, 0.0], -2.0),
        (0.0, 1.0, 0.0, [0.1, 0.2, 0.4, 0.2, 0.1], 0.0),
        (1.0, 1.0, 0.0, [0.0, 0.1, 0.2, 0.4, 0.3], 0.9),
    ],
)
def test_projections_of_the_specification(
    reward: float, discount: float, shift: float, expected: list[float], mean: float
) -> None:
    m = project(P, reward, discount, shift)

    torch.testing.assert_close(m, torch.tensor([expected]), atol=1e-5, rtol=0)
    torch.testing.assert_close(FIVE.mean(m), torch.tensor([mean]), atol=1e-5, rtol=0)


def test_without_a_shift_nothing_is_shifted() -> None:
    assert torch.equal(project(P, 0.5, 0.9), project(P, 0.5, 0.9, 0.0))


@given(st.integers(0, 2**31), st.floats(-8.0, 8.0), st.floats(0.0, 1.0), st.floats(-8.0, 8.0))
@settings(deadline=None, max_examples=50)
def test_an_entropy_share_moves_atoms_as_much_as_the_reward(
    seed: int, reward: float, discount: float, shift: float
) -> None:
    p = torch.softmax(2 * torch.randn(4, 5, generator=torch.Generator().manual_seed(seed)), dim=-1)

    torch.testing.assert_close(
        project(p, reward, discount, shift), project(p, reward - discount * shift, discount), atol=1e-5, rtol=0
    )


@given(st.integers(0, 2**31), st.sampled_from([2, 11, 101, 501]), st.floats(-30.0, 30.0), st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=50)
def test_rows_keep_their_sum_and_no_mass_is_negative(seed: int, atoms: int, reward: float, discount: float) -> None:
    support = Support(-20.0, 20.0, atoms, CPU)
    p = torch.softmax(3 * torch.randn(4, atoms, generator=torch.Generator().manual_seed(seed)), dim=-1)

    m = project(p, reward, discount, on=support)

    torch.testing.assert_close(m.sum(dim=-1), torch.ones(4), atol=1e-5, rtol=0)
    assert (m >= 0.0).all()


@given(st.integers(0, 2**31), st.floats(-4.0, 4.0), st.floats(0.0, 0.75), st.floats(-1.0, 1.0))
@settings(deadline=None, max_examples=50)
def test_the_mean_is_exact_where_nothing_leaves_the_support(
    seed: int, reward: float, discount: float, shift: float
) -> None:
    support = Support(-20.0, 20.0, 101, CPU)
    p = torch.softmax(3 * torch.randn(4, 101, generator=torch.Generator().manual_seed(seed)), dim=-1)

    m = project(p, reward, discount, shift, on=support)

    expected = reward + discount * (support.mean(p) - shift)
    torch.testing.assert_close(support.mean(m), expected, atol=1e-4, rtol=0)


def test_floor_and_ceiling_would_lose_what_falls_on_an_atom() -> None:
    position = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])  # a reward of 0 and a discount of 1
    low, high = position.floor(), position.ceil()
    naive = torch.zeros(5).index_add_(0, low.long(), P[0] * (high - position))
    naive.index_add_(0, high.long(), P[0] * (position - low))

    m = project(P, 0.0, 1.0)

    assert naive.sum() == 0.0
    torch.testing.assert_close(m.sum(), torch.tensor(1.0), atol=1e-6, rtol=0)


def test_twin_critics_are_projected_each_by_itself() -> None:
    other = P.flip(-1).roll(1, dims=-1)
    reward, discount = torch.tensor([0.5]), torch.tensor([0.9])

    both = FIVE.project(torch.stack((P, other), dim=1), reward, discount, torch.tensor([0.3]))

    assert torch.equal(both[:, 0], project(P, 0.5, 0.9, 0.3))
    assert torch.equal(both[:, 1], project(other, 0.5, 0.9, 0.3))


@pytest.mark.parametrize("broken", ["reward", "shift"])
def test_a_row_that_is_not_a_number_stays_one_and_leaves_the_others_alone(broken: str) -> None:
    reward, shift = torch.tensor([0.5, 0.5]), torch.tensor([0.3, 0.3])
    (reward if broken == "reward" else shift)[0] = torch.nan

    m = FIVE.project(P.expand(2, 5), reward, torch.tensor([0.9, 0.9]), shift)

    assert m[0].isnan().any()
    assert torch.equal(m[1:], project(P, 0.5, 0.9, 0.3))


def test_projection_leaves_its_input_alone() -> None:
    before = P.clone()

    project(P, 0.5, 0.9, 0.3)

    assert torch.equal(P, before)


def test_uniform_logits_are_worth_the_middle_of_the_support() -> None:
    torch.testing.assert_close(Support(-1.0, 3.0, 101, CPU).value(torch.zeros(1, 101)), torch.tensor([1.0]))


def test_columns_beyond_the_atoms_have_no_value() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 50.0, -50.0]])

    torch.testing.assert_close(FIVE.value(logits), torch.tensor([0.0]))


@pytest.mark.parametrize("atoms", [101, 501])
def test_cross_entropy_of_uniform_logits_is_the_logarithm_of_their_number(atoms: int) -> None:
    target = torch.softmax(torch.arange(float(atoms)), dim=-1)

    loss = cross_entropy(torch.full((atoms,), 7.0), target)

    torch.testing.assert_close(loss, torch.tensor(math.log(atoms)), atol=1e-5, rtol=0)


def test_a_quarter_of_a_distance_is_kept_with_501_atoms() -> None:
    # Position 412.25: a number of 8 significant bits could not tell it from 412.
    support = Support(-20.0, 20.0, 501, CPU)
    reward = -20.0 + 412.25 * 0.08

    m = project(torch.full((1, 501), 1 / 501), reward, 0.0, on=support)

    torch.testing.assert_close(m[0, 412:414], torch.tensor([0.75, 0.25]), atol=1e-3, rtol=0)
