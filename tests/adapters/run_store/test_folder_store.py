"""Run folders: their names, what is in them, and how they are found."""

import json
import re
from pathlib import Path

import pytest

from adapters.run_store.folder_store import FolderRunStore
from application.ports import Run
from domain.errors import ConfigurationError, DataError

VALUES = {"task": "walk", "rewards": {"alive": {"weight": 1e-5, "on": "yes", "range": [-1.0, 1.0], "noise": None}}}


@pytest.fixture
def store(tmp_path: Path) -> FolderRunStore:
    return FolderRunStore(tmp_path / "runs")


def make(store: FolderRunStore, task: str = "walk", name: str = "a") -> Run:
    run = store.create(task, "ppo", name)
    store.write_config(run, {"task": task})
    return run


def test_a_run_folder_is_named_by_task_algorithm_time_and_name(tmp_path: Path, store: FolderRunStore) -> None:
    run = make(store, name="first")

    assert run.path.parent == tmp_path / "runs/walk/ppo"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-first", run.path.name)
    assert run.checkpoints.is_dir()


def test_runs_of_the_same_second_do_not_collide_and_keep_their_order(store: FolderRunStore) -> None:
    made = [make(store) for _ in range(12)]

    assert len({run.path for run in made}) == 12
    assert [run.path for run in store.runs()] == [run.path for run in reversed(made)]


@pytest.mark.parametrize("name", ["", "a/b", "..~", "a b", "é", "~2", "..", ".a", "a" * 101])
def test_a_name_that_is_no_file_name_is_refused_and_nothing_made(
    store: FolderRunStore, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigurationError, match="--run-name is"):
        store.create("walk", "ppo", name)

    assert not (tmp_path / "runs").exists()


def test_a_root_that_is_a_file_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = FolderRunStore(tmp_path / "file" / "runs")

    with pytest.raises(DataError, match="runs cannot be written to .*file is not a folder"):
        store.check("a")
    with pytest.raises(DataError, match="runs cannot be written"):
        store.create("walk", "ppo", "a")


def test_a_config_comes_back_as_it_was_written_in_order(store: FolderRunStore) -> None:
    run = store.create("walk", "ppo", "a")
    store.write_config(run, VALUES)

    assert store.read_config(run) == VALUES
    assert list(store.read_config(run)) == ["task", "rewards"]
    assert not list(run.path.glob(".*"))


@pytest.mark.parametrize(
    "text", ["a: [1", "- 1", "", "!!python/object/apply:os.getcwd []", "\x00", "day: 2024-13-45", "[" * 5000]
)
def test_a_damaged_config_is_one_line(store: FolderRunStore, text: str) -> None:
    run = make(store)
    (run.path / "config.yaml").write_text(text)

    with pytest.raises(DataError, match="config.yaml is damaged") as caught:
        store.read_config(run)

    assert "\n" not in str(caught.value)


def test_the_environment_record_is_json(store: FolderRunStore) -> None:
    run = make(store)

    store.write_environment(run, {"versions": {"torch": "2.13.0"}})

    assert json.loads((run.path / "environment.json").read_text()) == {"versions": {"torch": "2.13.0"}}


def test_a_resumed_run_keeps_the_records_of_its_earlier_starts(store: FolderRunStore) -> None:
    run = make(store)

    for device in ("cpu", "cuda:0", "mps"):
        store.write_environment(run, {"device": device})

    record = json.loads((run.path / "environment.json").read_text())
    assert record == {"device": "mps", "earlier": [{"device": "cpu"}, {"device": "cuda:0"}]}


def test_a_run_is_found_by_path_by_the_end_of_it_and_by_name(store: FolderRunStore) -> None:
    old, new, other = make(store, name="same"), make(store, name="same"), make(store, task="run", name="other")

    assert store.find(str(old.path)).path == old.path
    assert store.find(f"walk/ppo/{old.path.name}").path == old.path
    assert store.find(old.path.name).path == old.path
    assert store.find("same").path == new.path
    assert store.find("other").path == other.path


@pytest.mark.parametrize("reference", ["nothing", "ppo", "am", "/", ""])
def test_a_missing_run_is_one_line(store: FolderRunStore, reference: str) -> None:
    make(store, name="same")

    with pytest.raises(DataError, match=f"no run '{reference}' in "):
        store.find(reference)


def test_the_newest_checkpoint_is_that_of_the_highest_iteration(store: FolderRunStore) -> None:
    run = make(store)
    for name in ("iteration_000900.pt", "iteration_001000.pt", ".iteration_002000.pt.7.tmp", "iteration_x.pt"):
        (run.checkpoints / name).write_bytes(b"")

    assert store.newest_checkpoint(run).name == "iteration_001000.pt"


def test_a_run_without_a_checkpoint_says_so(store: FolderRunStore) -> None:
    run = make(store)

    with pytest.raises(DataError, match="has no checkpoint: it ended before its first one"):
        store.newest_checkpoint(run)


def test_the_last_whole_row_of_metrics_counts(store: FolderRunStore) -> None:
    run = make(store)
    row = '{"iteration": 2, "episode/return": 3.5, "loss/value": null}\n'
    (run.path / "metrics.jsonl").write_text('{"iteration": 1}\n' + row + '{"iteration": 3, "epis')

    assert store.last_metrics(run) == {"iteration": 2.0, "episode/return": 3.5}


def test_a_run_without_metrics_has_none(store: FolderRunStore) -> None:
    assert store.last_metrics(make(store)) == {}
