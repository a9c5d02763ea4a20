"""Planted breaks of the timing contract, each made so small that no other rule than its own is broken.

Steps of 10 us leave so little between two windows that the slack between the clocks hides a shift from every rule that
compares them; steps of 300 us are wider than that slack.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from domain.timing import HostPhase, IngestTrace, Interval, TickTrace, TraceHeader, UpdateTrace
from domain.timing_rules import phase
from tests.support.traces import Plan, even

Trace = tuple[TraceHeader, list[TickTrace]]
TIGHT = Plan(lengths=even(10e-6))
LOOSE = Plan(lengths=even(300e-6))
K = 8
"""A tick with updates, between others, that neither logs nor saves."""
LOGS = 4
LAST = 11
_US = 1e-6


@dataclass(frozen=True)
class Break:
    """One way to break one rule."""

    rule: str
    name: str
    plant: Callable[[TraceHeader, list[TickTrace]], Trace]
    says: str
    """Part of what the first violation says."""
    plan: Plan = LOOSE


def span(tick: TickTrace, wanted: HostPhase) -> Interval:
    found = phase(tick, wanted)
    assert found is not None
    return found


def ingest_of(tick: TickTrace) -> IngestTrace:
    assert tick.ingest is not None
    return tick.ingest


def update_of(tick: TickTrace) -> UpdateTrace:
    assert tick.update is not None
    return tick.update


def at(ticks: list[TickTrace], index: int, tick: TickTrace) -> list[TickTrace]:
    """Return the ticks with one of them replaced."""
    return [*ticks[:index], tick, *ticks[index + 1 :]]


def in_tick(index: int, change: Callable[[TickTrace], TickTrace]) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    return lambda header, ticks: (header, at(ticks, index, change(ticks[index])))


def in_ingest(
    index: int, change: Callable[[IngestTrace], IngestTrace]
) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    return in_tick(index, lambda tick: replace(tick, ingest=change(ingest_of(tick))))


def in_update(
    index: int, change: Callable[[UpdateTrace], UpdateTrace]
) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    return in_tick(index, lambda tick: replace(tick, update=change(update_of(tick))))


def in_host(
    index: int, change: Callable[[list[tuple[HostPhase, float, float]]], list[tuple[HostPhase, float, float]]]
) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    return in_tick(index, lambda tick: replace(tick, host=tuple(change(list(tick.host)))))


def in_header(change: Callable[[TraceHeader], TraceHeader]) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    return lambda header, ticks: (change(header), ticks)


def shifted(interval: Interval, begin: float = 0.0, end: float = 0.0) -> Interval:
    return interval[0] + begin, interval[1] + end


def _swap_names(host: list[tuple[HostPhase, float, float]]) -> list[tuple[HostPhase, float, float]]:
    *rest, (first, b0, e0), (second, b1, e1) = host
    return [*rest, (second, b0, e0), (first, b1, e1)]


def _observe_twice(host: list[tuple[HostPhase, float, float]]) -> list[tuple[HostPhase, float, float]]:
    (name, begin, end), *rest = host
    return [(name, begin, end), (name, end, end), *rest]


def _no_swap(host: list[tuple[HostPhase, float, float]]) -> list[tuple[HostPhase, float, float]]:
    *rest, (window, begin, _), (_, _, end) = host
    return [*rest, (window, begin, end)]


def _end_swap(by: float) -> Callable[[list[tuple[HostPhase, float, float]]], list[tuple[HostPhase, float, float]]]:
    return lambda host: [*host[:-1], (host[-1][0], host[-1][1], host[-1][2] + by)]


def _update_into_exchange(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    begin, _ = update_of(ticks[K]).device
    return in_update(K, lambda update: replace(update, device=(begin, ticks[K + 1].exchange[0] + 5 * _US)))(
        header, ticks
    )


def _update_before_exchange_ends(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    _, end = update_of(ticks[K]).device
    return in_update(K, lambda update: replace(update, device=(ticks[K].exchange[1] - 5 * _US, end)))(header, ticks)


def _no_next_batch(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    return in_ingest(LAST, lambda ingest: replace(ingest, batch=None))(header, ticks)


def _pointer_after_window(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    end = span(ticks[K], HostPhase.WINDOW)[1]
    return in_ingest(K, lambda ingest: replace(ingest, committed_at=end + _US))(header, ticks)


def _collect_before_grant(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    begin = span(ticks[K], HostPhase.GRANT)[0] - _US
    return in_tick(K, lambda tick: replace(tick, collect=(begin, tick.collect[1])))(header, ticks)


def _published_late(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    end = span(ticks[K + 1], HostPhase.OBSERVATION)[1] + _US
    return in_tick(K, lambda tick: replace(tick, collect=(tick.collect[0], end)))(header, ticks)


def _more_memory(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    grown = header.host_bytes + 4 * header.capacity * 100
    return replace(header, host_bytes=grown), [replace(tick, host_bytes=grown) for tick in ticks]


def _third_slot(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    ticks = at(ticks, K, replace(ticks[K], slot=2))
    return in_ingest(K + 1, lambda ingest: replace(ingest, slot=2))(header, ticks)


def _same_slot_again(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    # The last tick's chunk is taken in no more, so only its grant shows the slot.
    return header, at(ticks, LAST, replace(ticks[LAST], slot=ticks[LAST - 1].slot))


def _freed_after_grant(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    grant = span(ticks[K + 1], HostPhase.GRANT)[0]
    return in_ingest(K, lambda ingest: replace(ingest, freed_at=grant + _US))(header, ticks)


def _not_taken_in(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    return header, at(ticks, LAST, replace(ticks[LAST], ingest=None, copies_in=1))


def _first_takes_in(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    return replace(header, first_tick=1), ticks[1:]


def _batch_unused(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    return header, at(ticks, LAST, replace(ticks[LAST], update=None))


def _batch_from_nowhere(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    first = next(index for index, tick in enumerate(ticks) if tick.update is not None)
    return in_ingest(first - 1, lambda ingest: replace(ingest, batch=None))(header, ticks)


def _batches(first: int) -> Callable[[TraceHeader, list[TickTrace]], Trace]:
    def plant(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
        _, ticks = in_ingest(K, lambda ingest: replace(ingest, batch=first))(header, ticks)
        return in_update(K + 1, lambda update: replace(update, batch=first))(header, ticks)

    return plant


def _same_batch(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    return _batches(update_of(ticks[K]).batch)(header, ticks)


def _read_before_filled(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    begin = update_of(ticks[K + 1]).device[0]
    return in_ingest(K, lambda ingest: replace(ingest, commit=(ingest.commit[0], begin + 5 * _US)))(header, ticks)


def _filled_while_read(header: TraceHeader, ticks: list[TickTrace]) -> Trace:
    end = span(ticks[K - 1], HostPhase.WINDOW)[1]
    _, ticks = in_update(K - 1, lambda update: replace(update, device=(update.device[0], end + 25 * _US)))(
        header, ticks
    )
    return in_ingest(
        K,
        lambda ingest: replace(ingest, copy=(end - 20 * _US, end), commit=(end + 20 * _US, ingest.commit[1])),
    )(header, ticks)


BREAKS = [
    Break("ticks-follow", "another first tick", in_header(lambda h: replace(h, first_tick=3)), "tick 0 where tick 3"),
    Break(
        "intervals",
        "exchange ends before it begins",
        in_tick(K, lambda t: replace(t, exchange=t.exchange[::-1])),
        "exchange ends 20.0 us before it begins",
    ),
    Break(
        "intervals",
        "copy ends before it begins",
        in_ingest(K, lambda i: replace(i, copy=i.copy[::-1])),
        "copy ends 1000.0 us before it begins",
    ),
    Break("phases", "swap after log", in_host(LOGS, _swap_names), "window log swap, out of order"),
    Break("phases", "two observations", in_host(K, _observe_twice), "observation observation act"),
    Break("phases", "no swap", in_host(K, _no_swap), "no swap"),
    Break("phases", "overlap", in_host(K, _end_swap(5 * _US)), "observation begins 5.0 us before swap ends"),
    Break("phases", "work outside", in_host(K, _end_swap(-200 * _US)), "200.0 us between swap and observation"),
    Break("marked", "logs unmarked", in_tick(LOGS, lambda t: replace(t, marked=())), "log takes 5300.0 us in a tick"),
    Break("marked", "odd mark", in_tick(K, lambda t: replace(t, marked=(HostPhase.ACT,))), "marked for act"),
    Break(
        "exchange-in-act",
        "begins before",
        in_tick(K, lambda t: replace(t, exchange=shifted(t.exchange, begin=-450 * _US))),
        "exchange against act: begins 150.0 us before it",
    ),
    Break(
        "exchange-in-act",
        "ends after",
        in_tick(K, lambda t: replace(t, exchange=shifted(t.exchange, end=450 * _US))),
        "exchange against act: ends 150.0 us after it",
    ),
    Break("inference-apart", "update too long", _update_into_exchange, "still runs for 5.0 us", TIGHT),
    Break("inference-apart", "update too early", _update_before_exchange_ends, "begins 5.0 us before", TIGHT),
    Break(
        "update-in-window",
        "begins before",
        in_update(K, lambda u: replace(u, device=shifted(u.device, begin=-450 * _US))),
        "update against window: begins 150.0 us before it",
    ),
    Break(
        "update-in-window",
        "ends after",
        in_update(K, lambda u: replace(u, device=shifted(u.device, end=450 * _US))),
        "update against window: ends 150.0 us after it",
    ),
    Break(
        "ingest-in-window",
        "copy begins before",
        in_ingest(K, lambda i: replace(i, copy=shifted(i.copy, begin=-450 * _US))),
        "copy against window: begins 150.0 us before it",
    ),
    Break(
        "ingest-in-window",
        "gather ends after",
        in_ingest(K, lambda i: replace(i, commit=shifted(i.commit, end=2250 * _US))),
        "commit and gather against window: ends",
    ),
    Break("ingest-in-window", "pointer moves after", _pointer_after_window, "against window: ends 1.0 us after it"),
    Break("ingest-in-window", "no next batch", _no_next_batch, "gathers no next batch"),
    Break("collector", "before its grant", _collect_before_grant, "begins 1.0 us before its grant"),
    Break("collector", "publishes late", _published_late, "taken 1.0 us before the collector has published"),
    Break("copies", "three in", in_tick(K, lambda t: replace(t, copies_in=3)), "3 copies in and 1 out"),
    Break("copies", "none out", in_tick(K, lambda t: replace(t, copies_out=0)), "2 copies in and 0 out"),
    Break("copies", "two in at first", in_tick(0, lambda t: replace(t, copies_in=2)), "where 1 and 1 are due"),
    Break("host-bytes", "grows", in_tick(K, lambda t: replace(t, host_bytes=t.host_bytes + 1)), "10001 bytes"),
    Break("host-bytes", "holds the replay", _more_memory, "bytes of shared memory at the start"),
    Break("slot-reuse", "a third slot", _third_slot, "slot 2 is granted, there are 2"),
    Break("slot-reuse", "still full", _same_slot_again, "the chunk of tick 10 is still in it"),
    Break("slot-reuse", "freed late", _freed_after_grant, "1.0 us before it is freed"),
    Break(
        "slot-event",
        "seen too early",
        in_ingest(K, lambda i: replace(i, copied_at=i.copy[1] - 150 * _US)),
        "seen done 150.0 us before it ends",
    ),
    Break(
        "slot-event",
        "freed too early",
        in_ingest(K, lambda i: replace(i, freed_at=i.copied_at - _US)),
        "is freed 1.0 us before its copy",
    ),
    Break(
        "commit-after-copy",
        "pointer",
        in_ingest(K, lambda i: replace(i, committed_at=i.copied_at - _US)),
        "pointer moves 1.0 us before",
    ),
    Break(
        "commit-after-copy",
        "device",
        in_ingest(K, lambda i: replace(i, commit=(i.copy[1] - _US, i.commit[1]))),
        "commit begins 1.0 us before the copy ends",
    ),
    Break(
        "committed-rows",
        "too far",
        in_ingest(K, lambda i: replace(i, committed=i.committed + 1)),
        "go from 28 to 33 by a chunk of 4",
    ),
    Break(
        "committed-rows",
        "backwards",
        in_ingest(LAST, lambda i: replace(i, committed=i.committed - 8)),
        "go from 40 to 36",
    ),
    Break(
        "committed-rows",
        "half a chunk",
        in_ingest(LAST, lambda i: replace(i, rows=2, committed=i.committed - 2)),
        "a chunk of 2 rows, neither 0 nor the 4",
    ),
    Break("chunk-once", "a gap", in_ingest(K, lambda i: replace(i, sequence=i.sequence + 1)), "chunk 8 is taken in"),
    Break("chunk-once", "again", in_ingest(K, lambda i: replace(i, tick=i.tick - 1)), "the chunk of tick 6"),
    Break("chunk-once", "other slot", in_ingest(LAST, lambda i: replace(i, slot=1 - i.slot)), "comes from slot 1"),
    Break("chunk-once", "left out", _not_taken_in, "the chunk of tick 10 is not taken in"),
    Break("chunk-once", "from before", _first_takes_in, "the first tick takes in a chunk"),
    Break(
        "policy-version",
        "of a tick",
        in_tick(LAST, lambda t: replace(t, policy_version=t.policy_version + 1)),
        "policy version 9 after 8 complete cycles",
    ),
    Break(
        "policy-version",
        "of a chunk",
        in_ingest(K, lambda i: replace(i, policy_version=i.policy_version - 1)),
        "a chunk of policy version 3 from tick 7",
    ),
    Break("batch-origin", "older", in_update(K, lambda u: replace(u, gathered_in=u.gathered_in - 1)), "in tick 6"),
    Break("batch-origin", "unused", _batch_unused, "no update uses it"),
    Break("batch-origin", "from nowhere", _batch_from_nowhere, "the window before gathered none"),
    Break("batch-rows", "newer rows", in_update(K, lambda u: replace(u, committed=u.committed + 4)), "from 32 "),
    Break("batch-rows", "older rows", in_update(K, lambda u: replace(u, committed=u.committed - 4)), "from 24 "),
    Break("hot-and-cold", "the same batch", _same_batch, "is filled in the window that reads it"),
    Break("hot-and-cold", "a third batch", _batches(2), "batch 2 is filled, there are 0 and 1"),
    Break("hot-and-cold", "read before filled", _read_before_filled, "updates begin 5.0 us before", TIGHT),
    Break("hot-and-cold", "filled while read", _filled_while_read, "being filled 5.0 us before", TIGHT),
    Break("learning-start", "too early", in_header(lambda h: replace(h, learning_start=12)), "gathered with 8 rows"),
]
