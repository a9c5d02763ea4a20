"""The picture of a trace: four rows, and every interval on its own."""

from itertools import pairwise

from application.trace_chrome import segment_events
from domain.timing import TickTrace
from tests.support.traces import Plan, even, make_trace

_, TICKS = make_trace(Plan(lengths=even(1e-5)))


def spans(ticks: list[TickTrace]) -> list[tuple[object, object, object, object]]:
    """Return row, name, begin and length, us, of what a segment shows."""
    return [(e["tid"], e["name"], e["ts"], e["dur"]) for e in segment_events(3, ticks) if e["ph"] == "X"]


def test_rows_have_names() -> None:
    named = [event["args"] for event in segment_events(3, TICKS) if event["name"] == "thread_name"]

    assert named == [
        {"name": "learner host"},
        {"name": "device: learner lane"},
        {"name": "device: side lane"},
        {"name": "collector"},
    ]


def test_a_first_tick_in_microseconds_from_its_begin() -> None:
    assert spans(TICKS[:1]) == [
        (0, "observation", 0.0, 10.0),
        (0, "act", 10.0, 40.0),
        (0, "grant", 50.0, 10.0),
        (0, "window", 60.0, 10.0),
        (0, "swap", 70.0, 10.0),
        (1, "inference", 20.0, 20.0),
        (3, "tick 0", 60.0, 1000.0),
    ]


def test_updates_copies_and_gathers_have_their_rows() -> None:
    rows = {(row, name) for row, name, _, _ in spans(TICKS)}

    assert {
        (1, "updates, batch 0"),
        (1, "updates, batch 1"),
        (2, "copy"),
        (2, "commit"),
        (2, "commit, gather of batch 0"),
        (2, "commit, gather of batch 1"),
    } <= rows


def test_intervals_of_a_row_do_not_overlap() -> None:
    for row in range(4):
        places = sorted((begin, begin + length) for r, _, begin, length in _numbers(TICKS) if r == row)

        assert all(left[1] <= right[0] + 0.01 for left, right in pairwise(places))


def test_no_tick_shows_nothing() -> None:
    assert list(segment_events(1, [])) == []


def _numbers(ticks: list[TickTrace]) -> list[tuple[object, object, float, float]]:
    found = []
    for row, name, begin, length in spans(ticks):
        assert isinstance(begin, float)
        assert isinstance(length, float)
        found.append((row, name, begin, length))
    return found
