"""The list of runs, from real folders."""

from pathlib import Path

import pytest

from adapters.run_store.folder_store import FolderRunStore
from application.ports import Run
from application.run_list import latest_run, list_runs
from domain.errors import DataError


@pytest.fixture
def store(tmp_path: Path) -> FolderRunStore:
    return FolderRunStore(tmp_path)


def make(store: FolderRunStore, task: str, iteration: int, *, checkpoint: bool = True) -> Run:
    run = store.create(task, "ppo", "a")
    store.write_config(run, {"task": task, "algo": "ppo", "train": {"iterations": 10}})
    row = f'{{"iteration": {iteration}, "episode/return": 1.5}}\n'
    (run.path / "metrics.jsonl").write_text(row)
    if checkpoint:
        (run.checkpoints / f"iteration_{iteration:06d}.pt").touch()
    return run


def test_each_run_has_its_figures_and_state_newest_first(store: FolderRunStore) -> None:
    make(store, "walk", 10)
    make(store, "walk", 4)
    make(store, "run", 4, checkpoint=False)

    found = list(list_runs(store))

    assert [(run.task, run.iteration, run.iterations, run.last_return, run.state) for run in found] == [
        ("run", 4, 10, 1.5, "no checkpoint"),
        ("walk", 4, 10, 1.5, "resumable"),
        ("walk", 10, 10, 1.5, "finished"),
    ]


@pytest.mark.parametrize(
    "text", ["[", "[" * 5000, "day: 2024-13-45", "train: {iterations: null}", "train: {iterations: x}", "train: [1]"]
)
def test_a_run_whose_configuration_is_damaged_stays_in_the_list(store: FolderRunStore, text: str) -> None:
    run = make(store, "walk", 4)
    (run.path / "config.yaml").write_text(text)

    assert [found.state for found in list_runs(store)] == ["damaged"]


def test_the_latest_run_of_a_task_is_found(store: FolderRunStore) -> None:
    make(store, "walk", 4)
    newest = make(store, "walk", 2)
    make(store, "run", 1)

    assert latest_run(store, "walk") == newest.path
    with pytest.raises(DataError, match="no run of task 'swim' yet"):
        latest_run(store, "swim")
