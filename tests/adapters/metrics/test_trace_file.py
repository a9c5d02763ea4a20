"""The trace of a run as a file: whole lines at any moment, segments behind each other, damage named by its line."""

from pathlib import Path

import pytest

from adapters.metrics.trace_file import TraceFile, TraceFileReader
from application.trace_lines import header_line, tick_line
from domain.errors import DataError
from domain.timing import TickTrace, TraceHeader
from tests.support.traces import Plan, even, make_trace

HEADER, TICKS = make_trace(Plan(lengths=even(1e-5)))
RESUMED, MORE = make_trace(Plan(lengths=even(1e-5), first_tick=9, first_version=6))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def write(path: Path, header: TraceHeader, ticks: list[TickTrace]) -> None:
    file = TraceFile(path, header)
    for tick in ticks:
        file.write(tick)
    file.close()


def test_what_is_written_is_read(path: Path) -> None:
    write(path, HEADER, TICKS)

    source = TraceFileReader(path)

    assert list(source.records()) == [HEADER, *TICKS]
    assert not source.cut


def test_a_resumed_run_appends_a_segment(path: Path) -> None:
    write(path, HEADER, TICKS)
    write(path, RESUMED, MORE)

    assert list(TraceFileReader(path).records()) == [HEADER, *TICKS, RESUMED, *MORE]


def test_nothing_is_made_before_the_first_tick(path: Path) -> None:
    TraceFile(path, HEADER).close()

    assert not path.exists()


def test_a_running_trace_can_be_read_up_to_the_last_flush(path: Path) -> None:
    file = TraceFile(path, HEADER)
    for tick in TICKS * 6:
        file.write(tick)

    assert len(list(TraceFileReader(path).records())) >= 1 + 64
    file.close()
    assert len(list(TraceFileReader(path).records())) == 1 + 72


def test_a_trace_may_be_closed_twice(path: Path) -> None:
    file = TraceFile(path, HEADER)
    file.write(TICKS[0])

    file.close()
    file.close()

    assert list(TraceFileReader(path).records()) == [HEADER, TICKS[0]]


@pytest.mark.parametrize("lost", [1, 2, 100])
def test_a_last_line_that_is_cut_is_left_out_and_told(path: Path, lost: int) -> None:
    write(path, HEADER, TICKS)
    path.write_bytes(path.read_bytes()[:-lost])

    source = TraceFileReader(path)

    assert list(source.records()) == [HEADER, *TICKS[:-1]]
    assert source.cut


@pytest.mark.parametrize("lost", [1, 100])
def test_a_resumed_run_removes_the_line_that_was_cut(path: Path, lost: int) -> None:
    write(path, HEADER, TICKS)
    path.write_bytes(path.read_bytes()[:-lost])

    write(path, RESUMED, MORE)

    source = TraceFileReader(path)
    assert list(source.records()) == [HEADER, *TICKS[:-1], RESUMED, *MORE]
    assert not source.cut


@pytest.mark.parametrize("junk", [b"x" * 100, b"x" * 200_000])
def test_a_file_without_a_whole_line_begins_anew(path: Path, junk: bytes) -> None:
    path.write_bytes(junk)

    write(path, HEADER, TICKS)

    assert list(TraceFileReader(path).records()) == [HEADER, *TICKS]


def test_a_long_cut_line_is_removed_whole(path: Path) -> None:
    path.write_bytes(header_line(HEADER).encode() + b"x" * 200_000)

    write(path, RESUMED, MORE)

    assert list(TraceFileReader(path).records()) == [HEADER, RESUMED, *MORE]


def test_a_damaged_line_in_the_middle_is_named(path: Path) -> None:
    path.write_text(header_line(HEADER) + tick_line(TICKS[0])[:-20] + "\n" + tick_line(TICKS[1]))

    with pytest.raises(DataError, match=r"trace\.jsonl line 2 is damaged"):
        list(TraceFileReader(path).records())


def test_bytes_that_are_no_text_are_named(path: Path) -> None:
    path.write_bytes(header_line(HEADER).encode() + b"\xff\xfe\n")

    with pytest.raises(DataError, match=r"trace\.jsonl line 2 is damaged: it is no UTF-8 text"):
        list(TraceFileReader(path).records())


def test_a_missing_trace_says_who_writes_one(path: Path) -> None:
    with pytest.raises(DataError, match=r"trace\.jsonl is missing: only off-policy training writes a trace"):
        list(TraceFileReader(path).records())


def test_a_trace_that_is_a_folder_cannot_be_read(path: Path) -> None:
    path.mkdir()

    with pytest.raises(DataError, match=r"trace\.jsonl cannot be read"):
        list(TraceFileReader(path).records())


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "absent" / "trace.jsonl", HEADER)

    with pytest.raises(DataError, match=r"trace\.jsonl cannot be written: No such file"):
        file.write(TICKS[0])
