"""What a check of a whole trace says, and what its picture holds."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from application.trace import check_trace, chrome_json
from application.trace_lines import Record
from domain.errors import DataError
from tests.support.traces import Plan, even, make_trace


class Records:
    """TraceSource over records in memory."""

    name = "some trace"
    cut = False

    def __init__(self, *records: Record) -> None:
        self._records = records

    def records(self) -> Iterator[Record]:
        yield from self._records


FIRST, TICKS = make_trace(Plan(lengths=even(1e-5)))
SECOND, RESUMED = make_trace(Plan(lengths=even(1e-5), ticks=5, first_tick=9, first_version=6, begin=5.0))


def test_a_resumed_run_has_two_segments_that_are_checked_alone() -> None:
    report = check_trace(Records(FIRST, *TICKS, SECOND, *RESUMED))

    assert (report.segments, report.breaks) == (2, {})
    assert (report.summary.ticks, report.summary.windows) == (17, 9 + 2)


def test_without_its_header_the_second_segment_breaks_the_first() -> None:
    assert check_trace(Records(FIRST, *TICKS, *RESUMED)).breaks


def test_breaks_are_counted_by_rule_with_the_first_one() -> None:
    broken = [replace(tick, copies_out=2) for tick in TICKS]

    report = check_trace(Records(FIRST, *broken))

    assert list(report.breaks) == ["copies"]
    assert report.breaks["copies"].count == 12
    assert report.breaks["copies"].first.tick == 0


def test_a_header_without_ticks_is_no_segment() -> None:
    # The run was stopped or failed in its first tick.
    report = check_trace(Records(FIRST, SECOND, *RESUMED, FIRST))

    assert (report.segments, report.breaks) == (1, {})


@pytest.mark.parametrize("records", [(), (FIRST,)])
def test_nothing_to_check_is_an_error(records: tuple[Record, ...]) -> None:
    with pytest.raises(DataError, match="some trace holds no whole tick"):
        check_trace(Records(*records))
    with pytest.raises(DataError, match="some trace holds no whole tick"):
        list(chrome_json(Records(*records)))


def test_a_tick_before_any_header_is_an_error() -> None:
    with pytest.raises(DataError, match="some trace line 1 is damaged: a tick comes before any header"):
        check_trace(Records(*TICKS))


def test_the_picture_is_json_with_a_process_for_each_segment() -> None:
    picture = json.loads("".join(chrome_json(Records(FIRST, *TICKS, SECOND, *RESUMED))))

    events = picture["traceEvents"]
    assert {event["pid"] for event in events} == {1, 2}
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["segment 1, from tick 0", "segment 2, from tick 9"]
    assert min(event["ts"] for event in events if event["ph"] == "X" and event["pid"] == 2) == 0.0
