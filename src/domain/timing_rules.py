"""The timing contract's rules about one tick's order: host phases, windows, inference, collector, copies, memory.

A rule looks at a tick and at what came before it and yields one line for each break. Host times are compared with host
times and device times with device times exactly; where both meet, ``CLOCK_SLACK_S`` covers the error of the clock that
device times were brought to. A comparison is written so that a NaN breaks the rule.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from domain.timing import HostPhase, IngestTrace, Interval, TickTrace, TraceHeader, UpdateTrace

CLOCK_SLACK_S = 100e-6
"""By how much a device time may be off on the host's clock."""
GAP_S = 100e-6
"""How long the learner's thread may be in no phase: what stamping takes, and too little to hide work in."""
_PAGES = 4 * 65536  # each of the four shared blocks may be rounded up to the largest page
_ORDER = tuple(HostPhase)
_MARKED = (HostPhase.LOG, HostPhase.SAVE)


@dataclass(slots=True)
class Past:
    """What the ticks before this one have done."""

    header: TraceHeader
    tick: TickTrace | None = None
    ingest: IngestTrace | None = None
    """The last one."""
    update: UpdateTrace | None = None
    """The last one."""
    cycles: int = 0
    rows: int = 0
    """Of all chunks taken in, summed here."""
    granted: dict[int, int] = field(default_factory=dict)
    """Slots that a chunk is in, or on its way to, by the chunk's tick."""
    freed: dict[int, float] = field(default_factory=dict)

    def advance(self, now: TickTrace) -> None:
        """Let a tick that has been looked at be past."""
        self.tick = now
        self.granted[now.slot] = now.tick
        if now.ingest is not None:
            self.ingest = now.ingest
            self.rows += now.ingest.rows
            self.freed[now.ingest.slot] = now.ingest.freed_at
            self.granted.pop(now.ingest.slot, None)
        if now.update is not None:
            self.update = now.update
            self.cycles += 1


Rule = Callable[[TickTrace, Past], Iterator[str]]


def phase(tick: TickTrace, wanted: HostPhase) -> Interval | None:
    """Return begin and end of a phase of a tick, the first where it is there twice; None where it is absent."""
    return next(((begin, end) for name, begin, end in tick.host if name is wanted), None)


def microseconds(seconds: float) -> str:
    """Return a short text of a length of time."""
    return f"{seconds * 1e6:.1f} us"


def inside(inner: Interval, outer: Interval, slack: float) -> str | None:
    """Return by how much an interval leaves another, as text; None where it lies inside."""
    if not inner[0] >= outer[0] - slack:
        return f"begins {microseconds(outer[0] - inner[0])} before it"
    if not inner[1] <= outer[1] + slack:
        return f"ends {microseconds(inner[1] - outer[1])} after it"
    return None


def ticks_follow(now: TickTrace, past: Past) -> Iterator[str]:
    """Ticks are counted without a gap from the header's first one."""
    expected = past.header.first_tick if past.tick is None else past.tick.tick + 1
    if now.tick != expected:
        yield f"tick {now.tick} where tick {expected} is due"


def intervals(now: TickTrace, past: Past) -> Iterator[str]:
    """Nothing ends before it begins."""
    found: list[tuple[str, Interval]] = [(name.value, (begin, end)) for name, begin, end in now.host]
    found += [("exchange", now.exchange), ("collect", now.collect)]
    if now.update is not None:
        found.append(("update", now.update.device))
    if now.ingest is not None:
        found += [("copy", now.ingest.copy), ("commit", now.ingest.commit)]
    for name, (begin, end) in found:
        if not begin <= end:
            yield f"{name} ends {microseconds(begin - end)} before it begins"


def phases(now: TickTrace, past: Past) -> Iterator[str]:
    """Between two windows lie only event wait, swap, log, save, observation, act and grant, in this order."""
    names = [name for name, _, _ in now.host]
    places = [_ORDER.index(name) for name in names]
    if any(left >= right for left, right in pairwise(places)):
        yield f"phases {' '.join(names)}, out of order"
    needed = [HostPhase.OBSERVATION, HostPhase.ACT, HostPhase.GRANT]
    if now.ingest is not None or now.update is not None:
        needed.append(HostPhase.WINDOW)
    if now.update is not None or (now.ingest is not None and now.ingest.batch is not None):
        needed.append(HostPhase.SWAP)
    missing = [name for name in needed if name not in names]
    if missing:
        yield f"no {', no '.join(missing)}"
    spans = [*(past.tick.host[-1:] if past.tick is not None else ()), *now.host]
    for (left, _, end), (right, begin, _) in pairwise(spans):
        if not begin >= end:
            yield f"{right} begins {microseconds(end - begin)} before {left} ends"
        elif not begin - end <= GAP_S:
            yield f"{microseconds(begin - end)} between {left} and {right} belong to no phase"


def marked(now: TickTrace, past: Past) -> Iterator[str]:
    """Log and save come only in ticks that are marked for them."""
    for name, begin, end in now.host:
        if name in _MARKED and name not in now.marked:
            yield f"{name} takes {microseconds(end - begin)} in a tick that is not marked for it"
    for name in now.marked:
        if name not in _MARKED:
            yield f"marked for {name}, which every tick does"


def exchange_in_act(now: TickTrace, past: Past) -> Iterator[str]:
    """Observation in, actor and action out lie in the phase ``act``."""
    act = phase(now, HostPhase.ACT)
    fault = inside(now.exchange, act, CLOCK_SLACK_S) if act is not None else None
    if fault is not None:
        yield f"exchange against act: {fault}"


def inference_apart(now: TickTrace, past: Past) -> Iterator[str]:
    """Inference and updates never overlap: a tick's exchange lies between the last update and its own."""
    if past.update is not None and not past.update.device[1] <= now.exchange[0]:
        late = past.update.device[1] - now.exchange[0]
        yield f"the update before still runs for {microseconds(late)} when the exchange begins"
    if now.update is not None and not now.exchange[1] <= now.update.device[0]:
        yield f"the update begins {microseconds(now.exchange[1] - now.update.device[0])} before the exchange ends"


def update_in_window(now: TickTrace, past: Past) -> Iterator[str]:
    """Updates lie in the window."""
    window = phase(now, HostPhase.WINDOW)
    if window is not None and now.update is not None:
        fault = inside(now.update.device, window, CLOCK_SLACK_S)
        if fault is not None:
            yield f"update against window: {fault}"


def ingest_in_window(now: TickTrace, past: Past) -> Iterator[str]:
    """Add, copy, commit and gather of the next batch lie in the window; once updates run, each window gathers."""
    window, ingest = phase(now, HostPhase.WINDOW), now.ingest
    if ingest is None:
        return
    if now.update is not None and ingest.batch is None:
        yield "updates run, and the window gathers no next batch"
    if window is None:
        return
    for name, device in (("copy", ingest.copy), ("commit and gather", ingest.commit)):
        fault = inside(device, window, CLOCK_SLACK_S)
        if fault is not None:
            yield f"{name} against window: {fault}"
    for name, at in (("copy seen done", ingest.copied_at), ("committed pointer", ingest.committed_at)):
        fault = inside((at, at), window, 0.0)
        if fault is not None:
            yield f"{name} against window: {fault}"


def collector(now: TickTrace, past: Past) -> Iterator[str]:
    """The collector works between its grant and the next observation; so its chunk is whole when a window begins."""
    grant, observation = phase(now, HostPhase.GRANT), phase(now, HostPhase.OBSERVATION)
    if grant is not None and not now.collect[0] >= grant[0]:
        yield f"the collector begins {microseconds(grant[0] - now.collect[0])} before its grant"
    if past.tick is None:
        return
    published = past.tick.collect[1]
    if observation is not None and not published <= observation[1]:
        late = microseconds(published - observation[1])
        yield f"the observation is taken {late} before the collector has published it"


def copies(now: TickTrace, past: Past) -> Iterator[str]:
    """Two copies to the device, observation and chunk, and one from it; without a chunk, one and one."""
    expected = (1 if now.ingest is None else 2, 1)
    if (now.copies_in, now.copies_out) != expected:
        yield f"{now.copies_in} copies in and {now.copies_out} out, where {expected[0]} and {expected[1]} are due"


def host_bytes(now: TickTrace, past: Past) -> Iterator[str]:
    """Registered memory is constant and holds slots only, so that it cannot grow with the replay's capacity."""
    header = past.header
    if now.host_bytes != header.host_bytes:
        yield f"{now.host_bytes} bytes of shared memory, {header.host_bytes} at the start"
    # Observation and action together are smaller than a chunk, which holds both and more.
    most = 3 * header.chunk_bytes + _PAGES
    if past.tick is None and not 2 * header.chunk_bytes < header.host_bytes <= most:
        yield (
            f"{header.host_bytes} bytes of shared memory at the start: two chunks of {header.chunk_bytes}, an "
            f"observation and an action take more than {2 * header.chunk_bytes} and at most {most}"
        )


RULES: dict[str, Rule] = {
    "ticks-follow": ticks_follow,
    "intervals": intervals,
    "phases": phases,
    "marked": marked,
    "exchange-in-act": exchange_in_act,
    "inference-apart": inference_apart,
    "update-in-window": update_in_window,
    "ingest-in-window": ingest_in_window,
    "collector": collector,
    "copies": copies,
    "host-bytes": host_bytes,
}
