"""Timing traces of runs that never were: a small model of the loop that keeps the contract, with lengths to choose."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from domain.timing import HostPhase, IngestTrace, Interval, TickTrace, TraceHeader, UpdateTrace

CHUNK_BYTES = 4000
HOST_BYTES = 10000
Lengths = Callable[[str], float]
"""Returns the length, s, of ``step`` (anything the host does in between), or of a piece of work by its name."""


def even(step: float) -> Lengths:
    """Return fixed lengths: the collector ends inside the window, and ``step`` is all that lies between."""
    work = {"exchange": 20e-6, "collect": 1e-3, "update": 4e-3, "copy": 1e-3, "commit": 1e-3, "log": 5e-3, "save": 9e-3}
    return lambda name: work.get(name, step)


def uneven(seed: int) -> Lengths:
    """Return random lengths: at times nothing at all, at times one side waits, at times the other."""
    source = random.Random(seed)
    most = {name: source.choice((1e-4, 2e-3, 2e-2)) for name in ("exchange", "collect", "update", "copy", "commit")}
    return lambda name: source.choice((0.0, 1.0)) * source.uniform(0.0, most.get(name, 3e-4))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a trace is made for."""

    lengths: Lengths
    ticks: int = 12
    num_envs: int = 4
    learning_start: int = 8
    first_tick: int = 0
    first_version: int = 0
    log_every: int = 5
    save_every: int = 7
    begin: float = 100.0
    skew: float = 0.0
    """What the device's clock is ahead of the host's, s."""
    empty: frozenset[int] = field(default_factory=frozenset)
    """Ticks whose chunk has no valid row."""


def random_plan(seed: int, *, first_tick: int = 0, first_version: int = 0) -> Plan:
    """Return a plan in which everything is left to ``seed``."""
    source = random.Random(f"plan {seed}")
    num_envs, ticks = source.randint(1, 4096), source.randint(1, 30)
    return Plan(
        lengths=uneven(seed),
        ticks=ticks,
        num_envs=num_envs,
        learning_start=source.randint(1, 10 * num_envs),
        first_tick=first_tick,
        first_version=first_version,
        log_every=source.randint(1, 9),
        save_every=source.randint(1, 9),
        begin=source.uniform(0.0, 1e6),
        skew=source.uniform(-9e-5, 9e-5),
        empty=frozenset(source.sample(range(first_tick, first_tick + ticks), source.randint(0, ticks // 4))),
    )


def make_trace(plan: Plan) -> tuple[TraceHeader, list[TickTrace]]:
    """Return a trace that keeps the contract."""
    header = TraceHeader(
        num_envs=plan.num_envs,
        capacity=1000 * plan.num_envs,
        learning_start=plan.learning_start,
        chunk_bytes=CHUNK_BYTES,
        host_bytes=HOST_BYTES,
        first_tick=plan.first_tick,
        first_version=plan.first_version,
    )
    loop = _Loop(plan)
    return header, [loop.tick(plan.first_tick + index) for index in range(plan.ticks)]


class _Loop:
    """The learner's thread, one tick after the other."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._now = plan.begin
        self._last: TickTrace | None = None
        self._version = plan.first_version
        self._committed = 0
        self._hot: IngestTrace | None = None
        self._host: list[tuple[HostPhase, float, float]] = []

    def tick(self, number: int) -> TickTrace:
        self._host = []
        last, slot = self._last, number % 2
        if last is not None:
            self._now = max(self._now, last.collect[1])
        self._end(HostPhase.OBSERVATION)
        exchange = self._work("exchange", self._after())
        self._now = exchange[1]
        granted = self._end(HostPhase.ACT)
        collect = self._work("collect", granted + self._length())
        window = self._end(HostPhase.GRANT)
        update = self._update(number, window)
        ingest = None if last is None else self._ingest(last, window)
        ends = [window]
        ends += [] if update is None else [update.device[1]]
        ends += [] if ingest is None else [ingest.commit[1], ingest.freed_at]
        self._now = max(ends)
        self._end(HostPhase.WINDOW)
        self._end(HostPhase.SWAP)
        marked = self._marked(number)
        for phase in marked:
            self._now += self._plan.lengths(phase.value)
            self._end(phase)
        tick = TickTrace(
            tick=number,
            policy_version=self._version,
            slot=slot,
            marked=marked,
            host=tuple(self._host),
            exchange=self._device(exchange),
            update=update and replace(update, device=self._device(update.device)),
            ingest=ingest and replace(ingest, copy=self._device(ingest.copy), commit=self._device(ingest.commit)),
            collect=collect,
            copies_in=1 if ingest is None else 2,
            copies_out=1,
            host_bytes=HOST_BYTES,
        )
        self._version += update is not None
        self._hot = ingest if ingest is not None and ingest.batch is not None else None
        self._last = tick
        return tick

    def _update(self, number: int, window: float) -> UpdateTrace | None:
        hot = self._hot
        if hot is None or hot.batch is None:
            return None
        device = self._work("update", window + self._length())
        return UpdateTrace(batch=hot.batch, gathered_in=number - 1, committed=hot.committed, device=device)

    def _ingest(self, last: TickTrace, window: float) -> IngestTrace:
        plan = self._plan
        rows = 0 if last.tick in plan.empty else plan.num_envs
        self._committed += rows
        copy = self._work("copy", window + self._length())
        copied_at = copy[1] + self._length()
        committed_at = copied_at + self._length()
        batch = None
        if self._committed >= plan.learning_start:
            batch = 0 if self._hot is None or self._hot.batch is None else 1 - self._hot.batch
        return IngestTrace(
            sequence=last.tick - plan.first_tick,
            tick=last.tick,
            slot=last.slot,
            policy_version=last.policy_version,
            rows=rows,
            copy=copy,
            copied_at=copied_at,
            freed_at=committed_at + self._length(),
            committed_at=committed_at,
            committed=self._committed,
            commit=self._work("commit", committed_at + self._length()),
            batch=batch,
        )

    def _marked(self, number: int) -> tuple[HostPhase, ...]:
        found = ((HostPhase.LOG, self._plan.log_every), (HostPhase.SAVE, self._plan.save_every))
        return tuple(phase for phase, every in found if number % every == every - 1)

    def _length(self) -> float:
        return self._plan.lengths("step")

    def _after(self) -> float:
        return self._now + self._length()

    def _work(self, name: str, begin: float) -> Interval:
        return begin, begin + self._plan.lengths(name)

    def _end(self, phase: HostPhase) -> float:
        """End a phase a step from now; it began where the one before it ended."""
        last = self._host[-1][2] if self._host else self._plan.begin if self._last is None else self._last.host[-1][2]
        self._now = self._after()
        self._host.append((phase, last, self._now))
        return self._now

    def _device(self, interval: Interval) -> Interval:
        return interval[0] + self._plan.skew, interval[1] + self._plan.skew
