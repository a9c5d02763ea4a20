"""Compares ring and batches with what they must hold after every tick, and lets faults happen."""

import os
import signal
import threading
from collections.abc import Callable

import torch
from torch import Tensor

from adapters.collector.process import CollectorProcess
from application.tick import OffPolicyRuntime, RuntimeCfg
from application.training import StopFlag
from benchmarks.soak.devices import FaultyTransfer
from benchmarks.soak.episodes import MISHAPS, Episode, Fault
from benchmarks.soak.expected import ExpectedRing, Journey
from benchmarks.soak.learners import told_action
from domain.learning.learner import Learner
from domain.replay.gather import draw
from domain.replay.replay import Replay
from domain.rng import derive_seed

_LATEST = 20
"""Ticks until a fault that was planned for a time has surely happened."""


class Injector:
    """Lets an episode's fault happen when its tick begins, or a little later.

    Args:
        episode: Says what and when.
        collector: What may be killed.
        transfer: What may fail.
        stop: What may be requested.
    """

    def __init__(self, episode: Episode, collector: CollectorProcess, transfer: FaultyTransfer, stop: StopFlag) -> None:
        self._episode, self._transfer, self._stop = episode, transfer, stop
        pid = collector.pid
        self._acts: dict[Fault, Callable[[], None]] = {
            Fault.KILL: lambda: os.kill(pid, signal.SIGKILL),
            Fault.RESUME: lambda: os.kill(pid, signal.SIGKILL),
            Fault.FREEZE: lambda: os.kill(pid, signal.SIGSTOP),
            Fault.INTERRUPT: lambda: os.kill(os.getpid(), signal.SIGINT),
            Fault.STOP: self._request,
        }
        self._timer: threading.Timer | None = None

    def tick(self, number: int) -> None:
        """Look whether it is time."""
        episode = self._episode
        if number == episode.tick and episode.fault in MISHAPS:
            self._transfer.arm(MISHAPS[episode.fault], episode.skip)
        if number == episode.tick and episode.fault in self._acts:
            self._timer = threading.Timer(episode.delay_s, self._acts[episode.fault])
            self._timer.start()
        if number == episode.tick + _LATEST:
            self.finish()

    def finish(self) -> None:
        """Wait until what was begun has happened."""
        if self._timer is not None:
            self._timer.join()
            self._timer = None

    def _request(self) -> None:
        self._stop.requested = True


class Watch:
    """The host's own account of a run.

    Args:
        episode: What runs.
        replay: What is looked at.
        device: Where it lies.
    """

    def __init__(self, episode: Episode, replay: Replay, device: torch.device) -> None:
        self._episode, self.replay = episode, replay
        plan = episode.replay
        self._expected = ExpectedRing(episode.world, plan.capacity)
        self._journey: Journey | None = None
        self._pending: tuple[Tensor, Tensor] | None = None
        self._batch: int | None = None
        self._generator = torch.Generator(device=device)
        self._index = torch.zeros(plan.updates * plan.batch_size, dtype=torch.int64, device=device)
        self._size = torch.zeros((), dtype=torch.int64, device=device)
        self.ticks = 0
        self.checked = {"ring_rows": 0, "batch_rows": 0, "actions": 0}
        self.wrong = {"ring_rows": 0, "batch_rows": 0, "actions": 0, "counters": 0}
        self.first_wrong: int | None = None
        """Tick."""

    @property
    def last_is_broken(self) -> bool:
        """Whether no row of the last tick is valid."""
        return self._pending is not None and not bool(self._pending[1].any())

    def begin(self, first: Tensor) -> None:
        """Take the first observation, (num_envs, 3)."""
        self._journey = self._journey or Journey(self._episode.world, first.clone())

    def ticked(self, number: int, version: int, action: Tensor) -> None:
        """Look at everything after tick ``number``, whose policy had a version and answered ``action``."""
        if self._journey is None:
            raise RuntimeError("a tick before the first observation")
        self.ticks += 1
        if self._pending is not None:
            self._expected.add(*self._pending)
            self._look_at_ring()
            if self._expected.committed >= self._episode.learning_start:
                self._batch = 0 if self._batch is None else 1 - self._batch
                self._look_at_batch(number, self._batch)
        if not self._episode.sac:
            told = told_action(self._journey.seen, self._journey.began, torch.tensor(float(version)))
            self._count("actions", len(told), int((told != action).any(dim=1).sum()))
        self._pending = self._journey.next(action)
        if self.first_wrong is None and any(self.wrong.values()):
            self.first_wrong = number

    def _look_at_ring(self) -> None:
        ring, expected = self.replay.ring, self._expected
        self._count("ring_rows", expected.size, expected.wrong(ring.rows.cpu()))
        self.wrong["counters"] += (int(ring.committed), int(ring.size)) != (expected.committed, expected.size)

    def _look_at_batch(self, tick: int, number: int) -> None:
        plan, batch = self._episode.replay, self.replay.batches[number]
        self._generator.manual_seed(derive_seed(plan.seed, f"replay/{tick}"))
        draw(self._generator, self._size.fill_(self._expected.size), self._index)
        due = self._expected.samples(self._index.cpu(), n_step=plan.n_step, gamma=plan.gamma)
        wrong = (batch.rows.cpu().flatten(0, 1) != due.rows).any(dim=1)
        for found, wanted in ((batch.reward, due.reward), (batch.discount, due.discount)):
            wrong |= ~torch.isclose(found.cpu().flatten(), wanted, rtol=1e-5, atol=1e-6)
        self._count("batch_rows", len(wrong), int(wrong.sum()))

    def _count(self, what: str, rows: int, wrong: int) -> None:
        self.checked[what] += rows
        self.wrong[what] += wrong


class WatchedRuntime(OffPolicyRuntime):
    """The runtime itself, with a look after every tick.

    Args:
        learner: As the runtime's.
        replay: As the runtime's.
        collector: As the runtime's.
        transfer: As the runtime's.
        cfg: As the runtime's.
    """

    watch: Watch
    """To be set before the first tick."""

    def __init__(
        self, learner: Learner, replay: Replay, collector: CollectorProcess, transfer: FaultyTransfer, cfg: RuntimeCfg
    ) -> None:
        super().__init__(learner, replay, collector, transfer, cfg)
        self._shared = collector.slots
        self.begun: Callable[[int], None] = lambda number: None
        """Called before a tick."""

    def tick(self, number: int, *, log: bool = False, save: bool = False) -> None:
        """Run a tick and look."""
        plan, watch, version = self._shared.plan, self.watch, self.learner.policy_version
        watch.begin(plan.observation(self._shared.observation)[0])
        self.begun(number)
        super().tick(number, log=log, save=save)
        watch.ticked(number, version, plan.action(self._shared.action).clone())
