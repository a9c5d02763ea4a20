"""What there is to say about each run without loading its checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from application.ports import Run, RunStore
from domain.errors import DataError

State = Literal["finished", "resumable", "no checkpoint", "damaged"]
ITERATION = "iteration"
RETURN = "episode/return"


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One line of the list."""

    path: Path
    task: str
    algo: str
    iteration: int
    """The last one that wrote metrics."""
    iterations: int
    """How many were asked for."""
    last_return: float | None
    """Mean over the episodes that ended in the last iteration; None where none did."""
    state: State


def list_runs(store: RunStore) -> Iterator[RunSummary]:
    """Yield a summary of every run, newest first; a run whose configuration cannot be read counts as damaged."""
    for run in store.runs():
        yield _summary(store, run)


def latest_run(store: RunStore, task: str) -> Path:
    """Return the folder of the newest run of ``task``. Raises DataError for none."""
    for summary in list_runs(store):
        if summary.task == task:
            return summary.path
    raise DataError(f"no run of task '{task}' yet: start one with 'unilab train {task}'")


def _summary(store: RunStore, run: Run) -> RunSummary:
    try:
        values = store.read_config(run)
        train = values.get("train")
        total = train.get("iterations") if isinstance(train, dict) else None
    except DataError:
        values, total = {}, None
    metrics = store.last_metrics(run)
    iteration = int(metrics.get(ITERATION, 0))
    return RunSummary(
        path=run.path,
        task=str(values.get("task", "?")),
        algo=str(values.get("algo", "?")),
        iteration=iteration,
        iterations=total if isinstance(total, int) else 0,
        last_return=metrics.get(RETURN),
        state=_state(store, run, iteration, total) if isinstance(total, int) else "damaged",
    )


def _state(store: RunStore, run: Run, iteration: int, total: int) -> State:
    try:
        store.newest_checkpoint(run)
    except DataError:
        return "no checkpoint"
    return "finished" if iteration >= total else "resumable"
