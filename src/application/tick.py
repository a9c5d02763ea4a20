"""One tick of off-policy training: who does what, in which order, and what of it goes into the trace.

Observation in, actor, action out; then, while the collector steps, one cycle of updates on the hot batch, and beside
it the chunk of the tick before goes into the ring and the next batch comes out of it; then batches change places.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from application.open_tick import GatheredBatch, OpenTick, TakenChunk, traced
from application.ports import Collector, Grant, Published
from domain.errors import WorkerError
from domain.learning.learner import Learner
from domain.replay.ingress import Ingress
from domain.replay.replay import Replay
from domain.replay.slots import ChunkHeader, checksum
from domain.timing import HostPhase, TickTrace, TraceHeader
from domain.transfer import Completion, Lane, Transfer

_SPIN_S = 1e-3
_NAP_S = 5e-5
_STOPPED_S = 1.0
"""A pause between two looks that no machine needs."""


@dataclass(frozen=True, kw_only=True)
class RuntimeCfg:
    """How ticks are run."""

    tick_timeout_s: float
    """How long one thing of a tick may take, of either side."""
    learning_start: int
    """Rows committed before the first batch is gathered."""
    checksums: bool = False
    """Whether every chunk is compared with its checksum on the device."""


class OffPolicyRuntime:
    """Runs ticks with a learner, its replay and a collector that has been started; used by one thread.

    Args:
        learner: Bound to the replay's batches.
        replay: Empty.
        collector: Ready, with its first observation.
        transfer: To the learner's device.
        cfg: Limits.

    Raises:
        WorkerError: The device failed while work was recorded.
    """

    def __init__(
        self, learner: Learner, replay: Replay, collector: Collector, transfer: Transfer, cfg: RuntimeCfg
    ) -> None:
        self.learner, self.replay, self._cfg = learner, replay, cfg
        self._collector, self._transfer = collector, transfer
        self._slots = collector.slots
        plan, device = self._slots.plan, transfer.device
        self._ingress = Ingress(plan.num_envs)
        self._seen = torch.zeros(plan.sizes["observation"], device=device)
        self._obs, self._began = plan.observation(self._seen)
        self._action = torch.zeros(plan.sizes["action"], device=device)
        self._summed = 0
        self._hot: GatheredBatch | None = None
        self._last: OpenTick | None = None
        self.waited_s = 0.0
        """How long all ticks have waited for the collector."""
        self.metrics: Mapping[str, Tensor] = {}
        """Of the last update, on the device."""
        self.trace: Callable[[TickTrace], None] = lambda tick: None
        """Takes every finished tick."""
        for block in self._slots.blocks:
            transfer.register(block)
        self._host_bytes = sum(block.nbytes for block in self._slots.blocks)
        self._prepare()
        self._noted = time.perf_counter()

    def header(self, first_tick: int) -> TraceHeader:
        """Return what all ticks of this run have in common."""
        plan = self._slots.plan
        return TraceHeader(
            num_envs=plan.num_envs,
            capacity=len(self.replay.ring.rows),
            learning_start=self._cfg.learning_start,
            chunk_bytes=4 * plan.sizes["chunk0"],
            host_bytes=plan.host_bytes,
            first_tick=first_tick,
            first_version=self.learner.policy_version,
        )

    @property
    def num_envs(self) -> int:
        """Env steps of a tick."""
        return self._slots.plan.num_envs

    @property
    def committed(self) -> int:
        """Rows ever committed."""
        return self._ingress.committed

    @property
    def depth(self) -> int:
        """Chunk slots that were not free when the last tick had been granted."""
        return 0 if self._last is None else self._last.depth

    @property
    def warm(self) -> bool:
        """Whether the next tick learns."""
        return self._hot is not None

    def tick(self, number: int, *, log: bool = False, save: bool = False) -> None:
        """Run tick ``number``; the collector goes on with its part until ``settle``.

        Args:
            number: Counts ticks from 0 over the whole training.
            log: Whether this tick ends with a report: the collector sends what its environment logged.
            save: Whether it ends with a checkpoint: the collector sends its environment's state.

        Raises:
            WorkerError: Either side failed or took too long.
        """
        if self._last is None:
            # What came before the first tick is no part of it.
            self._noted = time.perf_counter()
        marked = tuple(phase for phase, asked in ((HostPhase.LOG, log), (HostPhase.SAVE, save)) if asked)
        version, copies = self.learner.policy_version, self._transfer.copies
        tick = OpenTick(number=number, version=version, marked=marked, copies=copies)
        previous, self._last = self._last, tick
        with self.phase(HostPhase.OBSERVATION):
            chunk = None if previous is None else self._settle(previous).header
        with self.phase(HostPhase.ACT):
            tick.exchange = self._transfer.submit(Lane.LEARNER, self._exchange)
            self._await(tick.exchange, "the actor")
        with self.phase(HostPhase.GRANT):
            tick.slot = self._ingress.grant(number, tick.version)
            tick.depth = self._ingress.depth
            wanted = Grant(tick=number, slot=tick.slot, policy_version=tick.version, report=log, state=save)
            self._collector.grant(wanted)
        with self.phase(HostPhase.WINDOW):
            self._window(tick, chunk)
            if previous is not None:
                self.trace(traced(previous, self._host_bytes))
            if tick.update is not None:
                self._await(tick.update, "an update")
            if tick.ingest is not None:
                self._await(tick.ingest.commit, "the ring and the next batch")
        with self.phase(HostPhase.SWAP):
            ingest = tick.ingest
            self._hot = None
            if ingest is not None and ingest.batch is not None:
                self._hot = GatheredBatch(number=ingest.batch, tick=number, committed=ingest.committed)
        tick.copied = self._transfer.copies

    def settle(self) -> Published:
        """Wait until the collector has done its part of the last tick. Raises WorkerError where it cannot."""
        if self._last is None:
            raise WorkerError("no tick has been run: there is nothing to wait for")
        return self._settle(self._last)

    def finish(self) -> None:
        """Complete the last tick's record; call it once, after its ``settle``."""
        if self._last is not None and self._last.published is not None:
            self.trace(traced(self._last, self._host_bytes))
            self._last = None

    @contextmanager
    def phase(self, name: HostPhase) -> Iterator[None]:
        """Note as part of the last tick what the learner's thread does: all of its time, so that nothing hides."""
        yield
        begin, self._noted = self._noted, time.perf_counter()
        if self._last is not None:
            self._last.host.append((name, begin, self._noted))

    def _settle(self, tick: OpenTick) -> Published:
        if tick.published is None:
            begin = time.perf_counter()
            tick.published = self._collector.wait(self._cfg.tick_timeout_s)
            self.waited_s += time.perf_counter() - begin
            self._ingress.publish(tick.published.header)
        return tick.published

    def _window(self, tick: OpenTick, chunk: ChunkHeader | None) -> None:
        """Start the updates, then bring ``chunk`` to the device and start what follows from it."""
        tick.hot = self._hot
        if tick.hot is not None:
            tick.update = self._transfer.submit(Lane.LEARNER, partial(self._update, tick.hot.number))
        if chunk is None:
            return
        block = self._slots.chunks[chunk.slot]
        self._ingress.copy(chunk.slot)
        copy = self._transfer.submit(Lane.SIDE, partial(self._transfer.copy_in, block, self.replay.staging))
        self._await(copy, "a chunk's copy")
        copied_at = time.perf_counter()
        self._verify(chunk)
        rows = self._ingress.commit(chunk.slot)
        committed_at = time.perf_counter()
        batch = None
        if self._ingress.committed >= self._cfg.learning_start:
            batch = 0 if tick.hot is None else 1 - tick.hot.number
        commit = self._transfer.submit(Lane.SIDE, partial(self._take_in, tick.number, batch))
        self._ingress.free(chunk.slot)
        tick.ingest = TakenChunk(
            header=chunk,
            rows=rows,
            committed=self._ingress.committed,
            copy=copy,
            copied_at=copied_at,
            committed_at=committed_at,
            freed_at=time.perf_counter(),
            commit=commit,
            batch=batch,
        )

    def _update(self, batch: int) -> None:
        self.metrics = self.learner.update(batch)

    def _take_in(self, tick: int, batch: int | None) -> None:
        """Device work: the staged chunk into the ring, and a batch out of it."""
        if batch is not None:
            self.replay.seed(tick)
        self._takes[batch]()

    def _verify(self, chunk: ChunkHeader) -> None:
        if chunk.checksum is None or not self._cfg.checksums:
            return
        self._await(self._transfer.submit(Lane.SIDE, self._sum), "a checksum")
        if self._summed != chunk.checksum:
            raise WorkerError(
                f"chunk {chunk.sequence} of tick {chunk.tick} came to the device with checksum {self._summed}, "
                f"and {chunk.checksum} was published: shared memory or the copy is damaged"
            )

    def _sum(self) -> None:
        # Read here, where waiting for it means to wait for this lane alone.
        self._summed = int(checksum(self.replay.staging))

    def _prepare(self) -> None:
        """Run all recurring work once and record it; learner, ring and statistics are then as before."""
        learner, replay = self.learner, self.replay
        before = learner.state_dict()
        scaler = {} if replay.scaler is None else {k: v.clone() for k, v in replay.scaler.state_dict().items()}
        takes: dict[int | None, Callable[[], None]] = {batch: partial(replay.take_in, batch) for batch in (None, 0, 1)}
        work: list[tuple[Lane, Callable[[], None]]] = [(Lane.LEARNER, self._act)]
        for lane, once in [*work, *((Lane.SIDE, take) for take in takes.values())]:
            self._await(self._transfer.submit(lane, once), "the first run of recurring work")
        self._exchange = self._transfer.record(self._act, learner.generator)
        self._takes = {batch: self._transfer.record(take, replay.generator) for batch, take in takes.items()}
        learner.load_state_dict(before)
        replay.ring.clear()
        if replay.scaler is not None:
            replay.scaler.load_state_dict(scaler)

    def _act(self) -> None:
        """Device work: observation in, actor, action out."""
        self._transfer.copy_in(self._slots.observation, self._seen)
        self.learner.start_episodes(self._began > 0)
        self._slots.plan.action(self._action).copy_(self.learner.act(self._obs))
        self._transfer.copy_out(self._action, self._slots.action)

    def _await(self, work: Completion, what: str) -> None:
        """Wait for work of the device: awake at first, then in naps, so that physics threads have the CPU."""
        start = seen = time.perf_counter()
        while not work.done():
            now = time.perf_counter()
            if now - seen > _STOPPED_S:
                # This process was stopped (Ctrl-Z): that time does not count.
                start += now - seen
            seen, waited = now, now - start
            if waited > self._cfg.tick_timeout_s:
                raise WorkerError(
                    f"{what} has not ended on {self._transfer.device} within {self._cfg.tick_timeout_s:g} s "
                    "(runtime.tick_timeout_s): the device hangs, or is far too slow for this configuration"
                )
            if waited > _SPIN_S:
                time.sleep(_NAP_S)
