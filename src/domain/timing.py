"""The timing contract of off-policy training: what a tick leaves in the trace.

Times are seconds on the clock of ``time.perf_counter``, which host processes share; those of the device are brought to
it. ``domain.timing_check`` proves from such records that the contract was kept. A resumed run starts a new header:
sequence and committed rows count from 0 again, ticks and policy versions go on.
"""

from dataclasses import dataclass
from enum import StrEnum

Interval = tuple[float, float]
"""Begin and end."""


class HostPhase(StrEnum):
    """What the learner's thread does in a tick, in this order; ``log`` and ``save`` only in ticks that say so."""

    OBSERVATION = "observation"
    """Waits until the observation of this tick is there."""
    ACT = "act"
    """Observation in, actor, action out."""
    GRANT = "grant"
    """Hands the action and a free slot to the collector."""
    WINDOW = "window"
    """From the first update launch to the last event; ingest and gather of the next batch lie inside."""
    SWAP = "swap"
    """Exchanges hot and cold batch."""
    LOG = "log"
    SAVE = "save"


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestTrace:
    """The way of one chunk into the ring, on the side lane."""

    sequence: int
    tick: int
    """In which the chunk was collected."""
    slot: int
    policy_version: int
    rows: int
    """Rows committed: environments, or 0 for a chunk without a valid row."""
    copy: Interval
    """Device: shared slot to staging."""
    copied_at: float
    """Host: when the copy's completion was seen."""
    freed_at: float
    """Host: when the slot became free."""
    committed_at: float
    """Host: when the committed pointer moved."""
    committed: int
    """Rows ever committed, this chunk included."""
    commit: Interval
    """Device: staging to ring, statistics, and, once warm, sample and gather."""
    batch: int | None
    """Which of the two batches was gathered, 0 or 1; None before learning starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateTrace:
    """One cycle of updates."""

    batch: int
    """Which of the two batches it read, 0 or 1."""
    gathered_in: int
    """Tick in whose window that batch was gathered."""
    committed: int
    """Rows that were committed when it was sampled."""
    device: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class TickTrace:
    """One tick of the runtime."""

    tick: int
    policy_version: int
    """Of the actor in this tick: complete update cycles before it."""
    slot: int
    """Granted for this tick's chunk."""
    marked: tuple[HostPhase, ...]
    """Which of ``log`` and ``save`` the run's schedule asks of this tick."""
    host: tuple[tuple[HostPhase, float, float], ...]
    """Phase, begin and end, without a gap: each begins when the one before it ends, also from tick to tick."""
    exchange: Interval
    """Device: observation in, actor, action out."""
    update: UpdateTrace | None
    ingest: IngestTrace | None
    """Of the chunk of the tick before; None in the first tick."""
    collect: Interval
    """Collector: this tick's action seen, until its chunk and the next observation are published."""
    copies_in: int
    copies_out: int
    host_bytes: int
    """Shared memory registered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceHeader:
    """What the ticks of a trace have in common."""

    num_envs: int
    capacity: int
    learning_start: int
    """Rows committed before the first gather."""
    chunk_bytes: int
    host_bytes: int
    first_tick: int
    first_version: int
    """Policy version in the first tick: complete update cycles before it."""
