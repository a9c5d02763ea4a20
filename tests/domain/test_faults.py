"""Counting what broke."""

import torch

from domain.faults import FaultLog


def test_a_fault_is_counted_with_its_row_and_step() -> None:
    log = FaultLog(("physics", "reward/alive"), torch.device("cpu"))
    log.record(torch.tensor([[False, False], [False, True], [False, False]]), torch.tensor(7))

    report = log.drain()

    assert report.sources == ("physics", "reward/alive")
    assert report.counts.tolist() == [0, 1]
    assert report.rows[1] == 1
    assert report.steps[1] == 7


def test_counts_add_up_and_the_last_row_and_step_stay() -> None:
    log = FaultLog(("physics",), torch.device("cpu"))
    log.record(torch.tensor([[True], [False], [True]]), torch.tensor(1))
    log.record(torch.tensor([[False], [True], [False]]), torch.tensor(2))
    log.record(torch.tensor([[False], [False], [False]]), torch.tensor(3))

    report = log.drain()

    assert (report.counts.tolist(), report.rows.tolist(), report.steps.tolist()) == ([3], [1], [2])


def test_a_drain_starts_the_counts_anew_and_leaves_the_report_alone() -> None:
    log = FaultLog(("physics",), torch.device("cpu"))
    log.record(torch.tensor([[True]]), torch.tensor(1))
    first = log.drain()

    assert log.drain().counts.tolist() == [0]
    assert first.counts.tolist() == [1]
