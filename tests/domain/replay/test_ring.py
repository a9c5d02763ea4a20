"""The ring against a plain list of rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout
from domain.replay.ring import ReplayRing
from tests.support.host_sync import ForbidHostSync

CPU = torch.device("cpu")
LAYOUT = RowLayout(obs=1, action=1)
OBS, TRUNCATED = 0, -1


def chunk(first: int, rows: int) -> Tensor:
    """Rows whose observation counts from ``first``."""
    packed = torch.zeros(rows, LAYOUT.width)
    packed[:, OBS] = torch.arange(first, first + rows)
    return packed


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(0, 9), st.integers(1, 9))
def test_rows_lie_by_their_number_and_the_newest_are_kept(envs: int, spare: int, adds: int) -> None:
    ring = ReplayRing(LAYOUT, envs, envs + spare, CPU)
    with ForbidHostSync():
        for number in range(adds):
            ring.add(chunk(number * envs, envs), torch.ones(envs))
    written, capacity = adds * envs, envs + spare
    assert int(ring.committed) == written
    assert int(ring.size) == min(written, capacity)
    for number in range(max(0, written - capacity), written):
        assert ring.rows[number % capacity, OBS] == number
    assert ring.rows[:, TRUNCATED].sum() == 0


@pytest.mark.parametrize(("envs", "capacity"), [(1, 1), (1, 4), (3, 4), (4, 4)])
def test_five_adds_to_a_small_ring(envs: int, capacity: int) -> None:
    """FR-23."""
    ring = ReplayRing(LAYOUT, envs, capacity, CPU)
    for number in range(5):
        ring.add(chunk(number * envs, envs), torch.ones(envs))
    kept = sorted(ring.rows[:, OBS].tolist())
    assert kept == list(range(5 * envs - capacity, 5 * envs))


def test_a_broken_row_gives_its_place_to_a_valid_one() -> None:
    ring = ReplayRing(LAYOUT, 4, 12, CPU)
    ring.add(chunk(0, 4), torch.ones(4))
    rows = chunk(4, 4)
    rows[0] = rows[2] = torch.nan
    ring.add(rows, torch.tensor([0.0, 1.0, 0.0, 1.0]))
    assert ring.rows[4:8, OBS].tolist() == [5.0, 5.0, 5.0, 7.0]
    assert ring.rows[:8].isfinite().all()
    # No chain of several steps may run into the donated rows or out of them.
    assert ring.rows[:8, TRUNCATED].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("valid", [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
def test_one_valid_row_stands_in_for_all(valid: list[float]) -> None:
    ring = ReplayRing(LAYOUT, 3, 3, CPU)
    ring.add(chunk(10, 3), torch.tensor(valid))
    assert ring.rows[:, OBS].tolist() == [10.0 + valid.index(1.0)] * 3


def test_a_first_broken_row_marks_nothing_before_the_beginning() -> None:
    ring = ReplayRing(LAYOUT, 2, 6, CPU)
    ring.add(chunk(0, 2), torch.tensor([1.0, 0.0]))
    assert ring.rows[:, TRUNCATED].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_chunk_without_a_valid_row_writes_nothing_and_cuts_every_chain() -> None:
    ring = ReplayRing(LAYOUT, 2, 6, CPU)
    ring.add(chunk(0, 2), torch.ones(2))
    ring.add(chunk(2, 2), torch.ones(2))
    ring.add(torch.full((2, LAYOUT.width), torch.nan), torch.zeros(2))
    assert int(ring.committed) == 4
    assert ring.rows[:, OBS].tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]
    assert ring.rows[:, TRUNCATED].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_a_cleared_ring_begins_anew() -> None:
    ring = ReplayRing(LAYOUT, 2, 4, CPU)
    ring.add(chunk(0, 2), torch.ones(2))
    ring.clear()
    assert (int(ring.committed), int(ring.size)) == (0, 0)
    ring.add(chunk(7, 2), torch.ones(2))
    assert ring.rows[:2, OBS].tolist() == [7.0, 8.0]


@pytest.mark.parametrize(("envs", "capacity"), [(5, 4), (0, 4)])
def test_a_chunk_that_does_not_fit_is_refused(envs: int, capacity: int) -> None:
    with pytest.raises(ConfigurationError, match=f"the replay keeps {capacity} rows"):
        ReplayRing(LAYOUT, envs, capacity, CPU)
