"""What all training loops share: their plan and output, counters, reports and the checkpoint's frame."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from application.ports import CheckpointStore, EnvReport, MetricSink, Payload, Run
from domain.errors import ConfigurationError, DataError, SimulationError

SCHEMA = 1
TAIL_WINDOW = 100
"""Finished iterations that the tail throughput spans."""


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
    log_interval: int = 1
    """Iterations between two reports."""


@dataclass(frozen=True, kw_only=True)
class TrainOutput:
    """Where a run leaves what it produces; training closes the sinks."""

    run: Run | None
    """None saves nothing."""
    checkpoints: CheckpointStore
    sinks: Sequence[MetricSink]
    warn: Callable[[str], None]
    """Shows one line to the user."""
    strict: bool = False
    """Whether what an engine has to say ends the run, instead of a warning."""


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
class Progress:
    """Counters that a checkpoint carries, and what the last iteration came to."""

    iteration: int = 0
    env_steps: int = 0
    tail: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=TAIL_WINDOW))
    """Env steps and seconds of the last finished iterations."""
    checkpoint: Path | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def continued(cls, checkpoint: Mapping[str, object], plan: TrainPlan) -> "Progress":
        """Return the counters of a checkpoint.

        Raises:
            DataError: It is of another task or algorithm, or damaged.
            ConfigurationError: Nothing is left to do after it.
        """
        check_origin(checkpoint, plan.task, plan.algo)
        progress = cls(iteration=_count(checkpoint, "iteration"), env_steps=_count(checkpoint, "env_steps"))
        if progress.iteration >= plan.iterations:
            raise ConfigurationError(
                f"iterations is {plan.iterations} and the checkpoint is at {progress.iteration}: give a higher total"
            )
        progress.tail.extend(_tail(checkpoint))
        return progress

    def count(self, steps: int, seconds: float) -> None:
        """Count a finished iteration of ``steps`` env steps."""
        self.iteration += 1
        self.env_steps += steps
        self.tail.append((steps, seconds))

    def rates(self) -> dict[str, float]:
        """Return env steps and throughput as metrics."""
        steps, seconds = self.tail[-1]
        return {
            "env_steps": float(self.env_steps),
            "env_steps_per_sec": steps / seconds,
            "tail_env_steps_per_sec": sum(n for n, _ in self.tail) / sum(s for _, s in self.tail),
            "tail_window": float(TAIL_WINDOW),
            "tail_iterations": float(len(self.tail)),
        }

    def summary(self, plan: TrainPlan) -> TrainSummary:
        """Return how the run ended."""
        return TrainSummary(
            iteration=self.iteration,
            env_steps=self.env_steps,
            stopped=self.iteration < plan.iterations,
            checkpoint=self.checkpoint,
            metrics=self.metrics,
        )


def report(progress: Progress, env: EnvReport, output: TrainOutput, collected: int) -> None:
    """Add an environment's report to the iteration's metrics and hand all of them to the sinks.

    Raises:
        SimulationError: One source broke all of the ``collected`` env steps that the report is about.
    """
    progress.metrics |= env.metrics
    progress.metrics["faults"] = float(sum(count for count, _, _ in env.faults.values()))
    for sink in output.sinks:
        sink.write(progress.iteration, progress.metrics)
    check_faults(progress, env, output, collected)


def check_faults(progress: Progress, env: EnvReport, output: TrainOutput, collected: int) -> None:
    """Show what broke rows.

    Raises:
        SimulationError: One source broke all of the ``collected`` env steps that the report is about, or the engine has
            something to say and the output is ``strict``.
    """
    if env.notice is not None:
        if output.strict:
            raise SimulationError(f"{env.notice} (scene.strict_buffers is on)")
        output.warn(env.notice)
    for source, (count, row, step) in env.faults.items():
        output.warn(f"{source} broke {count} env steps since the last report, last in env {row} at step {step}")
    for source, (count, _, _) in env.faults.items():
        if count >= collected:
            raise SimulationError(
                f"{source} broke every one of the {collected} env steps up to iteration {progress.iteration}, so "
                "nothing can be learnt: look at that term, at the physics step, and at the learning rate"
            )


def save(progress: Progress, plan: TrainPlan, output: TrainOutput, parts: Payload) -> None:
    """Write a checkpoint of the counters and ``parts``, where the run is kept."""
    if output.run is None:
        return
    payload: Payload = {
        "schema": SCHEMA,
        "task": plan.task,
        "algo": plan.algo,
        "iteration": progress.iteration,
        "env_steps": progress.env_steps,
        "tail": [list(entry) for entry in progress.tail],
        **parts,
    }
    path = output.run.checkpoints / f"iteration_{progress.iteration:06d}.pt"
    output.checkpoints.save(path, payload)
    progress.checkpoint = path


def check_origin(checkpoint: Mapping[str, object], task: str, algo: str) -> None:
    """Raise DataError where a checkpoint is of another schema, task or algorithm; the message names both."""
    if checkpoint.get("schema") != SCHEMA:
        raise DataError(f"the checkpoint has schema {checkpoint.get('schema')}, this version reads {SCHEMA}")
    for key, kind, wanted in (("task", "task", task), ("algo", "algorithm", algo)):
        if checkpoint.get(key) != wanted:
            raise DataError(f"the checkpoint is of {kind} '{checkpoint.get(key)}', not of '{wanted}'")


def saved_learner(checkpoint: Mapping[str, object]) -> Mapping[str, object]:
    """Return the learner's part of a checkpoint. Raises DataError where it is missing."""
    return saved_part(checkpoint, "learner")


def saved_env(checkpoint: Mapping[str, object]) -> dict[str, Tensor]:
    """Return the environment's part of a checkpoint. Raises DataError where it is missing."""
    return {name: value for name, value in saved_part(checkpoint, "env").items() if isinstance(value, Tensor)}


def saved_part(checkpoint: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a table of a checkpoint. Raises DataError where it is missing."""
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
