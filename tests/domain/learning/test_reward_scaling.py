"""Reward scaling: the worked example of the specification, rows that broke, and what a checkpoint keeps."""

import torch

from domain.learning.reward_scaling import RewardScaler
from tests.support.host_sync import ForbidHostSync

CPU = torch.device("cpu")
STEPS = [([1.0, 2.0], [False, False]), ([1.0, -1.0], [False, True]), ([3.0, 0.0], [False, False])]


def test_returns_peak_and_denominator_of_the_specification() -> None:
    scaler = RewardScaler(2, 0.97, 5.0, CPU)
    returns, peaks, denominators = [], [], []

    for reward, done in STEPS:
        scaler.observe(torch.tensor(reward), torch.tensor(done))
        returns.append(scaler.returns.clone())
        peaks.append(scaler.peak.clone())
        denominators.append(scaler.denominator.clone())

    expected = torch.tensor([[1.0, 2.0], [1.97, -1.0], [4.9109, -0.97]])
    torch.testing.assert_close(torch.stack(returns), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.stack(peaks), torch.tensor([2.0, 2.0, 4.9109]), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        torch.stack(denominators), torch.tensor([0.500150, 1.218680, 2.021065]), atol=1e-5, rtol=0
    )


def test_rows_that_broke_leave_no_trace_in_the_statistics() -> None:
    whole, broken = RewardScaler(2, 0.97, 5.0, CPU), RewardScaler(4, 0.97, 5.0, CPU)
    valid = torch.tensor([True, False, True, False])

    for (first, second), (one, other) in STEPS:
        whole.observe(torch.tensor([first, second]), torch.tensor([one, other]))
        wide = torch.tensor([first, 70.0, second, -90.0])
        broken.observe(wide, torch.tensor([one, True, other, True]), valid)

    torch.testing.assert_close(broken.denominator, whole.denominator)
    torch.testing.assert_close(broken.peak, whole.peak)
    torch.testing.assert_close(broken.moments.count, whole.moments.count)
    torch.testing.assert_close(broken.returns, torch.tensor([4.9109, 0.0, -0.97, 0.0]))


def test_a_row_that_broke_starts_from_nothing_again() -> None:
    scaler = RewardScaler(1, 0.5, 5.0, CPU)
    ongoing = torch.tensor([False])
    scaler.observe(torch.tensor([8.0]), ongoing)
    scaler.observe(torch.tensor([0.0]), torch.tensor([True]), torch.tensor([False]))

    scaler.observe(torch.tensor([1.0]), ongoing)

    assert scaler.returns.tolist() == [1.0]
    assert scaler.peak == 8.0


def test_a_step_in_which_all_rows_broke_changes_no_statistic() -> None:
    scaler = RewardScaler(2, 0.97, 5.0, CPU)
    scaler.observe(torch.tensor([1.0, 2.0]), torch.tensor([False, False]))
    before = scaler.denominator.clone()

    scaler.observe(torch.tensor([9.0, 9.0]), torch.tensor([True, True]), torch.tensor([False, False]))

    torch.testing.assert_close(scaler.denominator, before)


def test_a_scaled_return_never_exceeds_its_bound() -> None:
    scaler = RewardScaler(1, 1.0, 5.0, CPU)

    for _ in range(50):
        scaler.observe(torch.tensor([3.0]), torch.tensor([False]))
        assert scaler.returns / scaler.denominator <= 5.0 + 1e-5


def test_the_state_of_a_scaler_continues_in_another_one() -> None:
    one, other = RewardScaler(2, 0.97, 5.0, CPU), RewardScaler(2, 0.97, 5.0, CPU)
    (first, ended), *rest = STEPS
    one.observe(torch.tensor(first), torch.tensor(ended))

    other.load_state_dict(one.state_dict())
    for reward, done in rest:
        for scaler in (one, other):
            scaler.observe(torch.tensor(reward), torch.tensor(done))

    assert torch.equal(one.denominator, other.denominator)


def test_observing_does_not_wait_for_the_device() -> None:
    scaler = RewardScaler(2, 0.97, 5.0, CPU)

    with ForbidHostSync():
        scaler.observe(torch.tensor([1.0, 2.0]), torch.tensor([False, True]), torch.tensor([True, False]))
