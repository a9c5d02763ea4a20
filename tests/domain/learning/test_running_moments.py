"""Running mean and variance: the worked example, and agreement with all rows at once."""

import pytest
import torch

from domain.learning.running_moments import ObservationNormalizer, RunningMoments
from tests.support.host_sync import ForbidHostSync


def test_two_batches_merge_to_the_population_moments_of_all_rows() -> None:
    normalizer = ObservationNormalizer(1)

    normalizer.update(torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
    normalizer.update(torch.tensor([[10.0], [12.0]]))

    torch.testing.assert_close(normalizer.mean, torch.tensor([5.333333]), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalizer.var, torch.tensor([17.222222]), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalizer(torch.tensor([[7.0]])), torch.tensor([[0.4006442]]), atol=1e-6, rtol=0)
    assert normalizer.count == 6.0


def test_many_batches_of_many_shapes_equal_one_pass_over_all_rows() -> None:
    rows = 3.0 + 2.0 * torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    normalizer = ObservationNormalizer(3)

    for chunk in (rows[:1], rows[1:8], rows[8:68].view(4, 15, 3), rows[68:]):
        normalizer.update(chunk)

    torch.testing.assert_close(normalizer.mean, rows.mean(dim=0))
    torch.testing.assert_close(normalizer.var, rows.var(dim=0, correction=0))


def test_before_the_first_batch_rows_are_only_divided_by_1_01() -> None:
    torch.testing.assert_close(ObservationNormalizer(2)(torch.tensor([[1.01, -2.02]])), torch.tensor([[1.0, -2.0]]))


def test_a_column_that_never_varies_stays_finite() -> None:
    normalizer = ObservationNormalizer(1)
    normalizer.update(torch.full((8, 1), 3.0))

    torch.testing.assert_close(
        normalizer(torch.tensor([[3.0], [3.01]])), torch.tensor([[0.0], [1.0]]), atol=1e-4, rtol=0
    )


def test_first_values_weigh_as_much_as_their_count() -> None:
    moments = RunningMoments(count=1.0)

    moments.merge(torch.tensor(3.0), torch.tensor(0.0), 2)

    # One row of mean 0 and variance 1, two rows at 3: mean 2, variance (1 + 4 + 1 + 1) / 3.
    torch.testing.assert_close(moments.mean, torch.tensor(2.0))
    torch.testing.assert_close(moments.var, torch.tensor(7 / 3))


def test_no_rows_change_nothing() -> None:
    moments = RunningMoments(count=2.0)
    moments.merge(torch.tensor(3.0), torch.tensor(4.0), 5)
    before = [t.clone() for t in (moments.mean, moments.var, moments.count)]

    moments.merge(torch.tensor(100.0), torch.tensor(100.0), torch.tensor(0.0))

    assert [float(t) for t in (moments.mean, moments.var, moments.count)] == pytest.approx([float(t) for t in before])


def test_merging_does_not_wait_for_the_device() -> None:
    normalizer = ObservationNormalizer(2)

    with ForbidHostSync():
        normalizer.update(torch.ones(3, 2))
        normalizer(torch.ones(3, 2))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_that_are_not_finite_are_left_out(bad: float) -> None:
    normalizer = ObservationNormalizer(2)
    normalizer.update(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))

    normalizer.update(torch.tensor([[bad, 0.0], [5.0, 0.0]]))

    assert normalizer.mean.tolist() == [2.0, 4.0]
    assert normalizer.var.tolist() == [1.0, 4.0]
    assert float(normalizer.count) == 2.0
