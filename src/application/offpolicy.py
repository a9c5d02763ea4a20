"""The use case of off-policy training: ticks, and around them metrics, checkpoints and the end."""

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from application.ports import Payload, Published, TraceSink
from application.tick import OffPolicyRuntime
from application.training import (
    Progress,
    StopFlag,
    TrainOutput,
    TrainPlan,
    TrainSummary,
    check_faults,
    report,
    save,
    saved_learner,
    saved_part,
)
from domain.errors import DataError, OutputError, SimulationError
from domain.replay.replay import Replay
from domain.timing import HostPhase, TickTrace, TraceHeader

SCALER = "reward_scaler"
TICK = "tick"


@dataclass(slots=True)
class _Timings:
    """Means over the ticks since the last report."""

    sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, tick: TickTrace) -> None:
        """Count a tick."""
        phases = {phase: end - begin for phase, begin, end in tick.host}
        self._put("inference_s", phases[HostPhase.ACT])
        self._put("collect_s", tick.collect[1] - tick.collect[0])
        if tick.update is not None:
            self._put("update_s", tick.update.device[1] - tick.update.device[0])
        if tick.ingest is not None:
            self._put("ingest_s", tick.ingest.commit[1] - tick.ingest.copy[0])
            self._put("policy_lag", float(tick.policy_version - tick.ingest.policy_version))

    def drain(self) -> dict[str, float]:
        """Return the means and start anew."""
        means = {name: sum(values) / len(values) for name, values in self.sums.items()}
        self.sums.clear()
        return means

    def _put(self, name: str, value: float) -> None:
        self.sums.setdefault(name, []).append(value)


def train_off_policy(
    runtime: OffPolicyRuntime,
    plan: TrainPlan,
    output: TrainOutput,
    *,
    resume_from: Mapping[str, object] | None = None,
    stop: StopFlag | None = None,
    open_trace: Callable[[TraceHeader], TraceSink] | None = None,
) -> TrainSummary:
    """Train until the plan's last iteration or until ``stop`` is requested; an iteration is one tick.

    A resumed run first fills its replay to the learning start by ticks that are no iterations.

    Args:
        runtime: Built for one task; its collector is ready. The caller closes what it is made of.
        plan: Task, algorithm, iterations, intervals.
        output: Checkpoints and metrics go here.
        resume_from: A loaded checkpoint, tensors on the CPU; the collector was started from its environment.
        stop: Asked once a tick.
        open_trace: Where the trace goes.

    Raises:
        DataError: The checkpoint is of another task or algorithm, or does not fit.
        ConfigurationError: Nothing is left to do after the checkpoint.
        WorkerError: The collector or the device failed or took too long.
        SimulationError: One source broke every env step of a report.
    """
    with contextlib.ExitStack() as closing:
        for sink in output.sinks:
            closing.callback(sink.close)
        loop = _Loop(runtime, plan, output, resume_from)
        if open_trace is not None:
            trace = open_trace(runtime.header(loop.ticks))
            closing.callback(trace.close)
            loop.trace = trace
        return loop.run(stop or StopFlag())


class _Loop:
    """The counters of a run, and what happens between ticks."""

    def __init__(
        self, runtime: OffPolicyRuntime, plan: TrainPlan, output: TrainOutput, resume_from: Mapping[str, object] | None
    ) -> None:
        self._runtime, self._plan, self._output = runtime, plan, output
        self._progress = Progress()
        self._timings = _Timings()
        self._reported = self._logged = 0
        self._waited = 0.0
        self._known: set[str] = set()
        self._refilling = resume_from is not None
        self.ticks = 0
        """Run so far, over the whole training."""
        self.trace: TraceSink | None = None
        runtime.trace = self._traced
        if resume_from is not None:
            self._continue(resume_from)

    def run(self, stop: StopFlag) -> TrainSummary:
        """Tick until the end."""
        runtime, plan, progress = self._runtime, self._plan, self._progress
        last = time.perf_counter()
        ending = False
        while not ending:
            if self._refilling and stop.requested:
                # Nothing has been learnt since the checkpoint.
                break
            self._refilling = self._refilling and not runtime.warm
            iteration = progress.iteration + (not self._refilling)
            # Asked before the tick, because the collector must know that a checkpoint follows.
            ending = stop.requested or iteration >= plan.iterations
            # While the replay fills, nothing is learnt that could be logged; broken rows are looked for all the same.
            due = self.ticks + 1 if self._refilling else iteration
            log = due % plan.log_interval == 0 or (ending and not self._refilling)
            saves = not self._refilling and (ending or iteration % plan.save_interval == 0)
            runtime.tick(self.ticks, log=log, save=saves)
            self.ticks += 1
            now = time.perf_counter()
            if self._refilling:
                progress.env_steps += runtime.num_envs
            else:
                progress.count(runtime.num_envs, now - last)
            last = now
            if log:
                with runtime.phase(HostPhase.LOG):
                    self._log(runtime.settle())
            if saves:
                with runtime.phase(HostPhase.SAVE):
                    self._save(runtime.settle())
        runtime.finish()
        return progress.summary(plan)

    def _log(self, published: Published) -> None:
        progress, runtime = self._progress, self._runtime
        collected, self._reported = progress.env_steps - self._reported, progress.env_steps
        if self._refilling:
            if published.report is not None:
                check_faults(progress, published.report, self._output, collected)
            return
        waited, self._waited = runtime.waited_s - self._waited, runtime.waited_s
        ticks, self._logged = self.ticks - self._logged, self.ticks
        progress.metrics = {
            **self._learnt(),
            **progress.rates(),
            **self._timings.drain(),
            "wait_s": waited / ticks,
            "ingress_depth": float(runtime.depth),
            "replay_size": float(min(runtime.committed, len(self._runtime.replay.ring.rows))),
            "policy_version": float(self._runtime.learner.policy_version),
        }
        if published.report is not None:
            report(progress, published.report, self._output, collected)

    def _learnt(self) -> dict[str, float]:
        """Return the learner's values; those of a part that has had no turn yet are not there."""
        values = self._runtime.metrics
        numbers = torch.stack(list(values.values())).tolist() if values else []
        found = {f"learner/{name}": v for name, v in zip(values, numbers, strict=True)}
        self._known.update(name for name, v in found.items() if not math.isnan(v))
        for name in sorted(name for name in self._known if math.isnan(found[name])):
            self._output.warn(f"{name} is no number in iteration {self._progress.iteration}: look at the learning rate")
        return {name: v for name, v in found.items() if name in self._known}

    def _save(self, published: Published) -> None:
        scaler = self._runtime.replay.scaler
        learner = self._runtime.learner.state_dict()
        check_finite(learner)
        payload: Payload = {
            "learner": learner,
            "env": dict(published.state or {}),
            TICK: self.ticks,
        }
        if scaler is not None:
            payload[SCALER] = {name: tensor.clone() for name, tensor in scaler.state_dict().items()}
        save(self._progress, self._plan, self._output, payload)

    def _continue(self, checkpoint: Mapping[str, object]) -> None:
        self._progress = Progress.continued(checkpoint, self._plan)
        ticks = checkpoint.get(TICK)
        if not isinstance(ticks, int) or ticks < 0:
            raise DataError(f"the checkpoint's entry '{TICK}' is {ticks}, not a count")
        self.ticks = ticks
        self._runtime.learner.load_state_dict(saved_learner(checkpoint))
        restore_scaler(self._runtime.replay, checkpoint)
        self._reported, self._logged = self._progress.env_steps, ticks
        start = self._runtime.header(self.ticks).learning_start
        self._output.warn(
            f"the replay is not saved: {start:,} rows of fresh episodes are collected before learning goes on"
        )

    def _traced(self, tick: TickTrace) -> None:
        self._timings.add(tick)
        if self.trace is not None:
            try:
                self.trace.write(tick)
            except OutputError as error:
                # A record of the run is worth less than the run.
                self._output.warn(f"{error}: the trace ends here")
                self.trace = None


def check_finite(learner: Mapping[str, object]) -> None:
    """Raise SimulationError where a learner's payload holds what is no number: it could not be loaded again."""
    for name, tensor in saved_part(learner, "tensors").items():
        if isinstance(tensor, Tensor) and not bool(torch.isfinite(tensor).all()):
            raise SimulationError(
                f"the learner's '{name}' is no longer a number, so it was not saved: continue from the last "
                "checkpoint, with lower learning rates"
            )


def restore_scaler(replay: Replay, checkpoint: Mapping[str, object]) -> None:
    """Continue the statistics of rewards; episodes begin anew. Raises DataError where the checkpoint's do not fit."""
    if replay.scaler is None:
        return
    saved = {name: value for name, value in saved_part(checkpoint, SCALER).items() if isinstance(value, Tensor)}
    try:
        replay.scaler.load_state_dict(saved)
    except RuntimeError as error:
        raise DataError(f"the checkpoint's entry '{SCALER}' does not fit: {error}") from error
    replay.scaler.start_episodes()
