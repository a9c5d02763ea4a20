"""The use case of on-policy training: rollout, update, metrics, checkpoint, and again."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from application.ports import CheckpointStore, MetricSink, Observations, OnPolicyLearner, Payload, Run
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, DataError, SimulationError
from domain.faults import FaultReport

SCHEMA = 1
TAIL_WINDOW = 100
"""Finished iterations that the tail throughput spans."""
TIMING_METRICS = frozenset({"env_steps_per_sec", "tail_env_steps_per_sec", "tail_iterations", "collect_s", "update_s"})
"""What differs between equal runs."""


@dataclass(slots=True)
class StopFlag:
    """Raised from outside, by a signal handler, to end a run after the iteration in progress."""

    requested: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """What is trained, and for how long."""

    task: str
    algo: str
    iterations: int
    """The number of the last iteration, counted from 1; a resumed run counts on."""
    save_interval: int
    """Iterations between two checkpoints."""


@dataclass(frozen=True, kw_only=True)
class TrainOutput:
    """Where a run leaves what it produces; training closes the sinks."""

    run: Run | None
    """None saves nothing."""
    checkpoints: CheckpointStore
    sinks: Sequence[MetricSink]
    warn: Callable[[str], None]
    """Shows one line to the user."""


@dataclass(frozen=True, kw_only=True)
class TrainSummary:
    """How a run ended."""

    iteration: int
    """The last finished one."""
    env_steps: int
    stopped: bool
    """Whether it ended before its last iteration because it was asked to."""
    checkpoint: Path | None
    metrics: Mapping[str, float]
    """Of the last finished iteration."""


@dataclass(slots=True)
class _Progress:
    """Counters that a checkpoint carries."""

    iteration: int = 0
    env_steps: int = 0
    tail: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=TAIL_WINDOW))
    """Env steps and seconds of the last finished iterations."""
    checkpoint: Path | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def train_on_policy(
    env: ManagerBasedRlEnv,
    learner: OnPolicyLearner,
    plan: TrainPlan,
    output: TrainOutput,
    *,
    resume_from: Mapping[str, object] | None = None,
    stop: StopFlag | None = None,
) -> TrainSummary:
    """Train until the plan's last iteration or until ``stop`` is requested.

    Args:
        env: Freshly built; its state is replaced by a checkpoint's. The caller closes it.
        learner: Built for this environment.
        plan: Task, algorithm, iterations.
        output: Checkpoints and metrics go here, from the rank that writes the run.
        resume_from: A loaded checkpoint, tensors on the CPU.
        stop: Asked once an iteration.

    Raises:
        DataError: The checkpoint is of another task or algorithm, or does not fit.
        ConfigurationError: Nothing is left to do after the checkpoint.
    """
    stop = stop or StopFlag()
    with contextlib.ExitStack() as sinks:
        for sink in output.sinks:
            sinks.callback(sink.close)
        progress, observations = _start(env, learner, plan, resume_from)
        ending = stop.requested
        while not ending:
            observations = _iterate(env, learner, progress, observations)
            if learner.writes_run:
                _report(env, progress, output, learner.rollout_steps * env.num_envs)
            # Read once: a request between saving and looping would end the run without its checkpoint.
            ending = stop.requested or progress.iteration >= plan.iterations
            if ending or progress.iteration % plan.save_interval == 0:
                _save(env, learner, plan, output, progress)
        return TrainSummary(
            iteration=progress.iteration,
            env_steps=progress.env_steps,
            stopped=progress.iteration < plan.iterations,
            checkpoint=progress.checkpoint,
            metrics=progress.metrics,
        )


def check_origin(checkpoint: Mapping[str, object], task: str, algo: str) -> None:
    """Raise DataError where a checkpoint is of another schema, task or algorithm; the message names both."""
    if checkpoint.get("schema") != SCHEMA:
        raise DataError(f"the checkpoint has schema {checkpoint.get('schema')}, this version reads {SCHEMA}")
    for key, kind, wanted in (("task", "task", task), ("algo", "algorithm", algo)):
        if checkpoint.get(key) != wanted:
            raise DataError(f"the checkpoint is of {kind} '{checkpoint.get(key)}', not of '{wanted}'")


def saved_learner(checkpoint: Mapping[str, object]) -> Mapping[str, object]:
    """Return the learner's part of a checkpoint. Raises DataError where it is missing."""
    return _part(checkpoint, "learner")


def saved_env(checkpoint: Mapping[str, object]) -> dict[str, Tensor]:
    """Return the environment's part of a checkpoint. Raises DataError where it is missing."""
    return {name: value for name, value in _part(checkpoint, "env").items() if isinstance(value, Tensor)}


def _start(
    env: ManagerBasedRlEnv, learner: OnPolicyLearner, plan: TrainPlan, resume_from: Mapping[str, object] | None
) -> tuple[_Progress, Observations]:
    progress = _Progress()
    if resume_from is None:
        return progress, env.reset()
    check_origin(resume_from, plan.task, plan.algo)
    progress.iteration, progress.env_steps = _count(resume_from, "iteration"), _count(resume_from, "env_steps")
    if progress.iteration >= plan.iterations:
        raise ConfigurationError(
            f"iterations is {plan.iterations} and the checkpoint is at {progress.iteration}: give a higher total"
        )
    learner.load_state_dict(saved_learner(resume_from))
    progress.tail.extend(_tail(resume_from))
    if not learner.writes_run:
        # One saved state would give every rank the same episodes; the others start fresh ones of their own seed.
        return progress, env.reset()
    env.load_state_dict(saved_env(resume_from))
    return progress, {group: value.clone() for group, value in env.observations.current.items()}


def _iterate(
    env: ManagerBasedRlEnv, learner: OnPolicyLearner, progress: _Progress, observations: Observations
) -> Observations:
    """Collect a rollout, learn from it, and count."""
    start = time.perf_counter()
    for _ in range(learner.rollout_steps):
        result = env.step(learner.act(observations))
        learner.record(result)
        observations = result.observations
    collected = time.perf_counter()
    losses = learner.update(observations)
    end = time.perf_counter()
    steps = learner.rollout_steps * env.num_envs * learner.world_size
    progress.iteration += 1
    progress.env_steps += steps
    progress.tail.append((steps, end - start))
    progress.metrics = {
        **losses,
        "env_steps": float(progress.env_steps),
        "env_steps_per_sec": steps / (end - start),
        "tail_env_steps_per_sec": sum(n for n, _ in progress.tail) / sum(s for _, s in progress.tail),
        "tail_window": float(TAIL_WINDOW),
        "tail_iterations": float(len(progress.tail)),
        "collect_s": collected - start,
        "update_s": end - collected,
    }
    return observations


def _report(env: ManagerBasedRlEnv, progress: _Progress, output: TrainOutput, collected: int) -> None:
    """Drain the environment's logs and hand all metrics of the iteration to the sinks.

    Raises:
        SimulationError: One source broke all of the ``collected`` env steps of this process.
    """
    episodes = env.drain_episodes()
    values = dict(zip(episodes.names, episodes.values.tolist(), strict=True))
    progress.metrics |= {name: value for name, value in values.items() if not math.isnan(value)}
    curricula = env.curricula.values
    if curricula:
        levels = torch.stack([value.float() for value in curricula.values()]).tolist()
        progress.metrics |= {f"curriculum/{name}": level for name, level in zip(curricula, levels, strict=True)}
    report = env.drain_faults()
    faults = dict(zip(report.sources, report.counts.tolist(), strict=True))
    _warn_of_faults(report, output.warn)
    progress.metrics["faults"] = float(sum(faults.values()))
    for sink in output.sinks:
        sink.write(progress.iteration, progress.metrics)
    worst = max(faults, key=lambda source: faults[source])
    if faults[worst] >= collected:
        raise SimulationError(
            f"{worst} broke every one of the {collected} env steps of iteration {progress.iteration}, so nothing can "
            "be learnt: look at that term, at the physics step, and at the learning rate"
        )


def _warn_of_faults(report: FaultReport, warn: Callable[[str], None]) -> None:
    counts, rows, steps = report.counts.tolist(), report.rows.tolist(), report.steps.tolist()
    for source, count, row, step in zip(report.sources, counts, rows, steps, strict=True):
        if count:
            warn(f"{source} broke {count} env steps since the last report, last in env {row} at step {step}")


def _save(
    env: ManagerBasedRlEnv, learner: OnPolicyLearner, plan: TrainPlan, output: TrainOutput, progress: _Progress
) -> None:
    if output.run is None or not learner.writes_run:
        return
    payload: Payload = {
        "schema": SCHEMA,
        "task": plan.task,
        "algo": plan.algo,
        "iteration": progress.iteration,
        "env_steps": progress.env_steps,
        "tail": [list(entry) for entry in progress.tail],
        "learner": learner.state_dict(),
        "env": env.state_dict(),
    }
    path = output.run.checkpoints / f"iteration_{progress.iteration:06d}.pt"
    output.checkpoints.save(path, payload)
    progress.checkpoint = path


def _part(checkpoint: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = checkpoint.get(name)
    if not isinstance(value, Mapping):
        raise DataError(f"the checkpoint's entry '{name}' is missing or damaged")
    return value


def _count(checkpoint: Mapping[str, object], name: str) -> int:
    value = checkpoint.get(name)
    if not isinstance(value, int) or value < 0:
        raise DataError(f"the checkpoint's entry '{name}' is {value}, not a count")
    return value


def _tail(checkpoint: Mapping[str, object]) -> list[tuple[int, float]]:
    entries = checkpoint.get("tail")
    try:
        return [(int(steps), float(seconds)) for steps, seconds in entries]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise DataError(f"the checkpoint's entry 'tail' is damaged: {error}") from error
