"""Runs one episode with the real collector process and says what was not as it has to be."""

import contextlib
import faulthandler
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

import torch

from adapters.checkpoints.torch_store import TorchCheckpointStore
from adapters.collector.process import CollectorProcess
from adapters.devices.cuda import CudaTransfer
from application.offpolicy import train_off_policy
from application.ports import Run
from application.tick import RuntimeCfg
from application.training import StopFlag, TrainOutput, TrainPlan, TrainSummary, saved_env
from benchmarks.soak.devices import FaultyTransfer, QueuedTransfer
from benchmarks.soak.episodes import Episode, Fault
from benchmarks.soak.leaks import shared_names
from benchmarks.soak.learners import ToldLearner, tiny_sac
from benchmarks.soak.watch import Injector, Watch, WatchedRuntime
from benchmarks.soak.world import build
from domain.errors import SimulationError, UnilabError
from domain.learning.learner import Learner
from domain.replay.replay import Replay
from domain.timing import TickTrace, TraceHeader
from domain.timing_check import check
from domain.transfer import Transfer

START_S = 60.0
BOUND_S = 90.0
"""A run that takes longer hangs."""
_LAST_RESORT_S = 60.0


class OverdueError(BaseException):
    """A run took too long; not to be caught by what runs."""


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise OverdueError inside after a while; end the process, with all stacks, if that does not help."""

    def overdue(signum: int, frame: FrameType | None) -> None:
        raise OverdueError(f"not over after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + _LAST_RESORT_S, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


class _Traced:
    """A TraceSink that keeps all."""

    def __init__(self) -> None:
        self.header: TraceHeader | None = None
        self.ticks: list[TickTrace] = []

    def open(self, header: TraceHeader) -> "_Traced":
        """Begin."""
        self.header = header
        return self

    def write(self, tick: TickTrace) -> None:
        """Keep."""
        self.ticks.append(tick)

    def close(self) -> None:
        """Nothing to close."""


@dataclass(kw_only=True)
class Outcome:
    """How a run ended."""

    seconds: float = 0.0
    error: type[BaseException] | None = None
    message: str = ""
    summary: TrainSummary | None = None
    hung: bool = False
    excused: str = ""
    """An error that chance explains."""
    warnings: list[str] = field(default_factory=list)
    ticks: int = 0
    checked: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """One line each."""
    pid: int = -1


class Runner:
    """Runs episodes on a device.

    Args:
        device: ``cpu`` for the fake transfer, or a CUDA device.
        folder: Of checkpoints.
    """

    def __init__(self, device: torch.device, folder: Path) -> None:
        self._device, self._folder = device, folder
        self.told: Callable[[str], None] = lambda text: None
        """Hears the collector's number and every tick that begins."""

    def run(self, episode: Episode) -> list[Outcome]:
        """Run an episode, and once more from its checkpoint where it is to be resumed."""
        folder = self._folder / f"episode_{episode.number}"
        outcomes = [self._leg(episode, folder, None)]
        newest = newest_checkpoint(folder)
        if episode.fault is Fault.RESUME and newest is not None and not outcomes[0].problems:
            payload = TorchCheckpointStore().load(newest, torch.device("cpu"))
            outcomes.append(self._leg(episode.resumed, folder, payload))
        return outcomes

    def _leg(self, episode: Episode, folder: Path, payload: Mapping[str, object] | None) -> Outcome:
        leg, start = _Leg(episode=episode, folder=folder, payload=payload), time.perf_counter()
        outcome = leg.outcome
        try:
            with bounded(BOUND_S):
                self._train(leg)
        except OverdueError as error:
            outcome.hung = True
            outcome.problems.append("".join(traceback.format_exception(error)))
        except (UnilabError, KeyboardInterrupt) as error:
            # The error itself would keep the whole run through its frames.
            outcome.error, outcome.message = type(error), str(error)
        except Exception as error:  # noqa: BLE001 - whatever else a run raises is a finding
            outcome.error, outcome.message = type(error), "".join(traceback.format_exception(error))
        outcome.seconds = time.perf_counter() - start
        outcome.problems += [*_ending(leg), *_checkpoint(leg), *_trace(leg)]
        outcome.problems += [f"wrong {what}: {count}" for what, count in outcome.wrong.items() if count]
        outcome.problems += [f"in shared memory: {name}" for name in shared_names([os.getpid(), outcome.pid])]
        return outcome

    def _train(self, leg: "_Leg") -> None:
        episode, stop = leg.episode, StopFlag()
        with contextlib.ExitStack() as closing:
            collector = CollectorProcess(
                partial(build, episode.world),
                episode.replay.slots,
                state=None if leg.payload is None else saved_env(leg.payload),
                checksums=episode.checksums,
            )
            closing.callback(collector.close)
            leg.outcome.pid = collector.pid
            self.told(f"collector {collector.pid}")
            transfer = FaultyTransfer(self._transfer(episode), episode.replay.slots.sizes["chunk0"])
            closing.callback(transfer.close)
            runtime = self._runtime(episode, collector, transfer)
            collector.wait_ready(START_S)
            watch = runtime.watch
            leg.outcome.checked, leg.outcome.wrong = watch.checked, watch.wrong
            injector = Injector(episode, collector, transfer, stop)

            def begun(number: int) -> None:
                self.told(f"tick {number}")
                injector.tick(number)

            runtime.begun = begun
            closing.callback(injector.finish)
            try:
                self._loop(leg, runtime, stop)
            except SimulationError as error:
                if episode.fault is Fault.ALL_BROKEN or not watch.last_is_broken:
                    raise
                # By chance no row since the last report was valid.
                leg.outcome.excused = str(error)
            finally:
                leg.outcome.ticks = watch.ticks
                if watch.first_wrong is not None:
                    leg.outcome.problems.append(f"first wrong in tick {watch.first_wrong}")

    def _loop(self, leg: "_Leg", runtime: WatchedRuntime, stop: StopFlag) -> None:
        episode = leg.episode
        plan = TrainPlan(
            task="soak",
            algo="sac" if episode.sac else "told",
            iterations=episode.iterations,
            save_interval=episode.save_interval,
            log_interval=episode.log_interval,
        )
        output = TrainOutput(
            run=Run(path=leg.folder), checkpoints=TorchCheckpointStore(), sinks=[], warn=leg.outcome.warnings.append
        )
        leg.outcome.summary = train_off_policy(
            runtime, plan, output, resume_from=leg.payload, stop=stop, open_trace=leg.traced.open
        )

    def _runtime(self, episode: Episode, collector: CollectorProcess, transfer: FaultyTransfer) -> WatchedRuntime:
        plan, world, device = episode.replay, episode.world, self._device
        replay = Replay(plan, device, None)
        learner: Learner = ToldLearner(replay, world.num_envs, device)
        if episode.sac:
            learner = tiny_sac(world, plan, replay, device)
        cfg = RuntimeCfg(
            tick_timeout_s=episode.tick_timeout_s,
            learning_start=episode.learning_start,
            checksums=episode.checksums,
        )
        watch = Watch(episode, replay, device)
        runtime = WatchedRuntime(learner, replay, collector, transfer, cfg)
        runtime.watch = watch
        return runtime

    def _transfer(self, episode: Episode) -> Transfer:
        if self._device.type == "cuda":
            return CudaTransfer(self._device, graphs=True)
        return QueuedTransfer(episode.world.seed, episode.slowest)


@dataclass(frozen=True, kw_only=True)
class _Leg:
    """One run of an episode."""

    episode: Episode
    folder: Path
    payload: Mapping[str, object] | None
    """Of the checkpoint it goes on from."""
    outcome: Outcome = field(default_factory=Outcome)
    traced: _Traced = field(default_factory=_Traced)


def _ending(leg: _Leg) -> Iterator[str]:
    """Compare how a run ended with how it had to."""
    outcome, due, episode = leg.outcome, leg.episode.ending, leg.episode
    if outcome.hung or outcome.excused:
        return
    if due.error is None:
        if outcome.error is not None:
            yield f"had to end well: {outcome.error.__name__}: {outcome.message}"
        elif outcome.summary is None:
            yield "ended without a summary"
        elif outcome.summary.stopped is not (episode.fault is Fault.STOP):
            yield f"stopped is {outcome.summary.stopped} after iteration {outcome.summary.iteration}"
        return
    if outcome.error is None:
        yield f"had to end with {due.error.__name__}, ended well"
    elif outcome.error is not due.error or due.words not in outcome.message:
        yield f"had to end with {due.error.__name__} '{due.words}': {outcome.error.__name__}: {outcome.message}"


def _checkpoint(leg: _Leg) -> Iterator[str]:
    """Look whether the checkpoint that had to be kept is there and whole."""
    episode, summary, newest = leg.episode, leg.outcome.summary, newest_checkpoint(leg.folder)
    if leg.payload is None:
        early = episode.fault in (Fault.BUILD, Fault.RESET) or leg.outcome.hung or leg.outcome.excused
        reached = 0 if early else episode.tick
    else:
        reached = int(str(leg.payload["iteration"]))
    # What comes before the fault's tick has surely been saved.
    due = reached // episode.save_interval * episode.save_interval if leg.payload is None else reached
    if summary is not None:
        due = summary.iteration
    if newest is None:
        if due:
            yield f"no checkpoint, iteration {due} had to be saved"
        return
    found = TorchCheckpointStore().load(newest, torch.device("cpu"))["iteration"]
    if int(str(found)) < due:
        yield f"the newest checkpoint is of iteration {found}, {due} had to be saved"


def _trace(leg: _Leg) -> Iterator[str]:
    """Check the timing contract."""
    if leg.traced.header is None:
        return
    broken = check(leg.traced.header, leg.traced.ticks)
    yield from (f"trace, tick {found.tick}, {found.rule}: {found.what}" for found in broken[:3])
    # The last tick of a run that fails is never complete.
    if leg.outcome.ticks - len(leg.traced.ticks) > 2:
        yield f"{len(leg.traced.ticks)} ticks traced, {leg.outcome.ticks} run"


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint of an episode."""
    return max((folder / "checkpoints").glob("*.pt"), default=None)
