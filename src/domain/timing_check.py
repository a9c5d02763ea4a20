"""Proves from a trace that the timing contract was kept, and says what the overlap has brought."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from domain.timing import TickTrace, TraceHeader
from domain.timing_chunk_rules import CHUNK_RULES
from domain.timing_rules import RULES, Past, Rule

ALL_RULES: dict[str, Rule] = RULES | CHUNK_RULES
"""By name; each says in its docstring what it asks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One break of one rule."""

    rule: str
    """A name of ``ALL_RULES``."""
    tick: int
    what: str
    """One line, with the numbers."""


def check(header: TraceHeader, ticks: Iterable[TickTrace]) -> list[Violation]:
    """Return every break of the contract in the ticks that follow a header, in their order; empty where it holds."""
    past = Past(header)
    found: list[Violation] = []
    for now in ticks:
        for name, rule in ALL_RULES.items():
            found += [Violation(rule=name, tick=now.tick, what=what) for what in rule(now, past)]
        past.advance(now)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class TimingSummary:
    """Medians over ticks with updates, or over all where none has any; seconds. None where there is none to take."""

    ticks: int
    windows: int
    """With updates."""
    iteration: float | None
    """From one tick's first phase to the next one's; ticks marked for log or save are left out."""
    inference: float | None
    """Device: observation in, actor, action out."""
    collect: float | None
    updates: float | None
    """Device."""

    @property
    def overlap(self) -> float | None:
        """iteration / (inference + max(collect, updates)): 1 where everything that may overlap does."""
        if self.iteration is None or self.inference is None or self.collect is None:
            return None
        limit = self.inference + max(self.collect, self.updates or 0.0)
        return self.iteration / limit if limit > 0 else None


@dataclass(slots=True)
class _Lengths:
    iteration: list[float] = field(default_factory=list)
    inference: list[float] = field(default_factory=list)
    collect: list[float] = field(default_factory=list)

    def add(self, tick: TickTrace, following: TickTrace | None) -> None:
        self.inference.append(tick.exchange[1] - tick.exchange[0])
        self.collect.append(tick.collect[1] - tick.collect[0])
        if following is not None and not tick.marked and tick.host and following.host:
            self.iteration.append(following.host[0][1] - tick.host[0][1])


class TimingMeter:
    """Takes the ticks of a trace one by one and keeps only their lengths."""

    def __init__(self) -> None:
        self._last: TickTrace | None = None
        self._all, self._warm = _Lengths(), _Lengths()
        self._updates: list[float] = []
        self._ticks = 0

    def add(self, tick: TickTrace) -> None:
        """Take the next tick."""
        self._settle(tick)
        self._last = tick
        self._ticks += 1

    def new_segment(self) -> None:
        """Say that the next tick does not follow the last one."""
        self._settle(None)
        self._last = None

    def summary(self) -> TimingSummary:
        """Return the figures of all ticks taken so far."""
        self.new_segment()
        lengths = self._warm if self._updates else self._all
        return TimingSummary(
            ticks=self._ticks,
            windows=len(self._updates),
            iteration=_median(lengths.iteration),
            inference=_median(lengths.inference),
            collect=_median(lengths.collect),
            updates=_median(self._updates),
        )

    def _settle(self, following: TickTrace | None) -> None:
        tick = self._last
        if tick is None:
            return
        self._all.add(tick, following)
        if tick.update is not None:
            self._warm.add(tick, following)
            self._updates.append(tick.update.device[1] - tick.update.device[0])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
