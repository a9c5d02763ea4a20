"""A timing trace as events of the Chrome trace format: four rows a segment, lengths in microseconds from its begin."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from domain.timing import Interval, TickTrace

Event = dict[str, object]
_ROWS = ("learner host", "device: learner lane", "device: side lane", "collector")
_HOST, _LEARNER, _SIDE, _COLLECTOR = range(len(_ROWS))


def segment_events(segment: int, ticks: Iterable[TickTrace]) -> Iterator[Event]:
    """Yield the names of the rows, then every interval of every tick; none for no tick.

    Args:
        segment: Number of the segment, shown as a process.
        ticks: Its ticks.
    """
    rest = iter(ticks)
    first = next(rest, None)
    if first is None:
        return
    yield _named("process_name", segment, 0, f"segment {segment}, from tick {first.tick}")
    for row, name in enumerate(_ROWS):
        yield _named("thread_name", segment, row, name)
        yield {"ph": "M", "name": "thread_sort_index", "pid": segment, "tid": row, "args": {"sort_index": row}}
    origin = first.host[0][1] if first.host else first.exchange[0]
    for tick in chain([first], rest):
        for row, name, (begin, end), details in _spans(tick):
            yield {
                "ph": "X",
                "name": name,
                "pid": segment,
                "tid": row,
                "ts": round((begin - origin) * 1e6, 3),
                "dur": round((end - begin) * 1e6, 3),
                "args": {"tick": tick.tick, **details},
            }


def _named(what: str, segment: int, row: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": segment, "tid": row, "args": {"name": name}}


def _spans(tick: TickTrace) -> Iterator[tuple[int, str, Interval, Mapping[str, object]]]:
    for phase, begin, end in tick.host:
        yield _HOST, phase.value, (begin, end), {}
    yield _LEARNER, "inference", tick.exchange, {"policy_version": tick.policy_version}
    update, ingest = tick.update, tick.ingest
    if update is not None:
        details = {"batch": update.batch, "gathered_in": update.gathered_in, "committed": update.committed}
        yield _LEARNER, f"updates, batch {update.batch}", update.device, details
    if ingest is not None:
        chunk = {"sequence": ingest.sequence, "chunk_of_tick": ingest.tick, "slot": ingest.slot}
        gather = "" if ingest.batch is None else f", gather of batch {ingest.batch}"
        yield _SIDE, "copy", ingest.copy, chunk
        yield _SIDE, f"commit{gather}", ingest.commit, chunk | {"rows": ingest.rows, "committed": ingest.committed}
    yield _COLLECTOR, f"tick {tick.tick}", tick.collect, {"slot": tick.slot, "policy_version": tick.policy_version}
