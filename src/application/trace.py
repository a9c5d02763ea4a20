"""The use cases of a run's timing trace: check it, and show it as a picture; and the port of the file it lies in."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from application.trace_chrome import segment_events
from application.trace_lines import Record
from domain.errors import DataError
from domain.timing import TickTrace, TraceHeader
from domain.timing_check import TimingMeter, TimingSummary, Violation, check

TRACE = "trace.jsonl"
"""The file's name in a run folder."""


class TraceSource(Protocol):
    """A trace that was written, possibly by several starts of a run, possibly by one that still runs."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def cut(self) -> bool:
        """Whether ``records`` has met a last line that was cut short, which it leaves out."""
        ...

    def records(self) -> Iterator[Record]:
        """Yield headers, each before its ticks. Raises DataError, with the line, for a missing or damaged trace."""
        ...


@dataclass(frozen=True, kw_only=True)
class Breaks:
    """Breaks of one rule."""

    count: int
    first: Violation


@dataclass(frozen=True, kw_only=True)
class TraceReport:
    """What a check has found."""

    segments: int
    """Starts of the run that wrote a tick."""
    summary: TimingSummary
    breaks: dict[str, Breaks]
    """By rule; empty where the contract holds."""


def check_trace(source: TraceSource) -> TraceReport:
    """Check each segment of a trace alone.

    Raises:
        DataError: The trace is missing or damaged, or holds no tick.
    """
    meter, counts, first = TimingMeter(), Counter[str](), dict[str, Violation]()
    segments = 0
    for header, ticks in _segments(source):
        for violation in check(header, _metered(ticks, meter)):
            counts[violation.rule] += 1
            first.setdefault(violation.rule, violation)
        meter.new_segment()
        segments += 1
    breaks = {rule: Breaks(count=count, first=first[rule]) for rule, count in counts.items()}
    return TraceReport(segments=segments, summary=meter.summary(), breaks=breaks)


def chrome_json(source: TraceSource) -> Iterator[str]:
    """Yield a trace as pieces of a JSON text that Perfetto and ``chrome://tracing`` open; a segment is a process.

    Raises:
        DataError: As for ``check_trace``.
    """
    lead = '{"displayTimeUnit":"ms","traceEvents":[\n'
    for number, (_, ticks) in enumerate(_segments(source), start=1):
        for event in segment_events(number, ticks):
            yield lead + json.dumps(event, separators=(",", ":"))
            lead = ",\n"
    yield "\n]}\n"


def _segments(source: TraceSource) -> Iterator[tuple[TraceHeader, Iterator[TickTrace]]]:
    """Yield each header that has ticks, with them; they must be taken before the next header is asked for."""
    header: TraceHeader | None = None
    found = False
    for kind, group in groupby(source.records(), type):
        if kind is TraceHeader:
            header = [record for record in group if isinstance(record, TraceHeader)][-1]
        elif header is None:
            raise DataError(f"{source.name} line 1 is damaged: a tick comes before any header")
        else:
            found = True
            yield header, (record for record in group if isinstance(record, TickTrace))
    if not found:
        raise DataError(f"{source.name} holds no whole tick: there is nothing to check")


def _metered(ticks: Iterable[TickTrace], meter: TimingMeter) -> Iterator[TickTrace]:
    for tick in ticks:
        meter.add(tick)
        yield tick
