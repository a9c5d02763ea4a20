"""``unilab runs``."""

from pathlib import Path

import pytest

from adapters.run_store.folder_store import FolderRunStore
from entrypoints.cli.main import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderRunStore:
    monkeypatch.setenv("UNILAB_RUNS", str(tmp_path))
    return FolderRunStore(tmp_path)


def test_runs_are_a_table(store: FolderRunStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = store.create("walk", "ppo", "a")
    store.write_config(run, {"task": "walk", "algo": "ppo", "train": {"iterations": 9}})

    assert main(["runs"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [str(run.path), "walk", "ppo", "0/9", "no", "checkpoint"]


def test_the_latest_run_is_a_path_and_nothing_else(store: FolderRunStore, capsys: pytest.CaptureFixture[str]) -> None:
    run = store.create("walk", "ppo", "a")
    store.write_config(run, {"task": "walk"})

    assert main(["runs", "--latest", "walk"]) == 0
    assert capsys.readouterr().out == f"{run.path}\n"


def test_no_runs_are_no_error(store: FolderRunStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    assert "no runs in" in capsys.readouterr().out
