"""A tick while it runs, and the trace that it leaves."""

from dataclasses import dataclass, field

from application.ports import Published
from domain.errors import WorkerError
from domain.replay.slots import ChunkHeader
from domain.timing import HostPhase, IngestTrace, TickTrace, UpdateTrace
from domain.transfer import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredBatch:
    """A batch that was gathered."""

    number: int
    tick: int
    committed: int


@dataclass(slots=True, kw_only=True)
class TakenChunk:
    """What happened to a chunk so far."""

    header: ChunkHeader
    rows: int
    committed: int
    copy: Completion
    copied_at: float
    committed_at: float
    freed_at: float
    commit: Completion
    batch: int | None


@dataclass(slots=True, kw_only=True)
class OpenTick:
    """A tick whose record is not complete yet."""

    number: int
    version: int
    marked: tuple[HostPhase, ...]
    copies: tuple[int, int]
    slot: int = -1
    depth: int = 0
    host: list[tuple[HostPhase, float, float]] = field(default_factory=list)
    exchange: Completion | None = None
    update: Completion | None = None
    hot: GatheredBatch | None = None
    ingest: TakenChunk | None = None
    copied: tuple[int, int] = (0, 0)
    published: Published | None = None


def traced(tick: OpenTick, host_bytes: int) -> TickTrace:
    """Return the trace of a tick that both sides have finished."""
    if tick.exchange is None or tick.published is None:
        raise WorkerError(f"tick {tick.number} was not finished")
    update, ingest = None, None
    if tick.update is not None and tick.hot is not None:
        update = UpdateTrace(
            batch=tick.hot.number,
            gathered_in=tick.hot.tick,
            committed=tick.hot.committed,
            device=tick.update.span(),
        )
    if tick.ingest is not None:
        taken, header = tick.ingest, tick.ingest.header
        ingest = IngestTrace(
            sequence=header.sequence,
            tick=header.tick,
            slot=header.slot,
            policy_version=header.policy_version,
            rows=taken.rows,
            copy=taken.copy.span(),
            copied_at=taken.copied_at,
            freed_at=taken.freed_at,
            committed_at=taken.committed_at,
            committed=taken.committed,
            commit=taken.commit.span(),
            batch=taken.batch,
        )
    return TickTrace(
        tick=tick.number,
        policy_version=tick.version,
        slot=tick.slot,
        marked=tick.marked,
        host=tuple(tick.host),
        exchange=tick.exchange.span(),
        update=update,
        ingest=ingest,
        collect=(tick.published.began, tick.published.ended),
        copies_in=tick.copied[0] - tick.copies[0],
        copies_out=tick.copied[1] - tick.copies[1],
        host_bytes=host_bytes,
    )
