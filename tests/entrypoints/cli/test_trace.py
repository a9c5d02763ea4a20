"""``unilab trace``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.metrics.trace_file import TraceFile
from adapters.run_store.folder_store import FolderRunStore
from application.ports import Run
from application.trace import TRACE
from domain.timing import TickTrace
from entrypoints.cli.main import main
from tests.support.traces import Plan, even, make_trace

HEADER, TICKS = make_trace(Plan(lengths=even(1e-5)))
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("UNILAB_RUNS", str(tmp_path / "runs"))
    store = FolderRunStore(tmp_path / "runs")
    made = store.create("walk", "sac", "a")
    store.write_config(made, {"task": "walk"})
    return made


def trace(run: Run, ticks: list[TickTrace]) -> None:
    file = TraceFile(run.path / TRACE, HEADER)
    for tick in ticks:
        file.write(tick)
    file.close()


def test_a_trace_that_holds_ends_with_0(run: Run, capsys: Captured) -> None:
    trace(run, TICKS)

    assert main(["trace", "check", "a"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=1) == ["ticks", "12, with updates 9, starts of the run 1"]
    assert [line.split()[0] for line in lines[1:5]] == ["iteration", "inference", "collector", "updates"]
    assert lines[2].split() == ["inference", "0.020", "ms"]
    assert lines[5].split()[-1] == "1.02"
    assert lines[6:] == ["the timing contract holds"]


def test_a_trace_that_breaks_it_ends_with_1_and_shows_each_rule_once(run: Run, capsys: Captured) -> None:
    broken = [replace(tick, copies_out=2) for tick in TICKS]
    broken[8] = replace(broken[8], host_bytes=1)
    trace(run, broken)

    assert main(["trace", "check", "a"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[-3] == "the timing contract is broken: 13 times"
    assert lines[-2].split(maxsplit=2) == [
        "copies",
        "12",
        "first in tick 0: 1 copies in and 2 out, where 1 and 1 are due",
    ]
    assert lines[-1].split(maxsplit=2)[:2] == ["host-bytes", "1"]


def test_the_run_may_be_given_as_a_folder(run: Run) -> None:
    trace(run, TICKS)

    assert main(["trace", "check", str(run.path)]) == 0


def test_a_line_that_was_cut_is_told_and_no_violation(run: Run, capsys: Captured) -> None:
    trace(run, TICKS)
    file = run.path / TRACE
    file.write_bytes(file.read_bytes()[:-9])

    assert main(["trace", "check", "a"]) == 0
    assert "the last line of the trace is cut short" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("check", "a"), ("export", "a", "out/picture.json")])
def test_a_run_without_a_trace_ends_with_2(
    run: Run, capsys: Captured, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["trace", *command]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "trace.jsonl is missing: only off-policy training writes a trace" in err
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_there_ends_with_2(run: Run, capsys: Captured) -> None:
    assert main(["trace", "check", "other"]) == 2
    assert "no run 'other'" in capsys.readouterr().err


def test_a_damaged_trace_ends_with_2_and_names_the_line(run: Run, capsys: Captured) -> None:
    trace(run, TICKS)
    with (run.path / TRACE).open("a") as file:
        file.write('{"tick":1}\n')

    assert main(["trace", "check", "a"]) == 2
    assert "trace.jsonl line 14 is damaged: policy_version is missing" in capsys.readouterr().err


def test_the_picture_is_a_file(run: Run, capsys: Captured, tmp_path: Path) -> None:
    trace(run, TICKS)
    target = tmp_path / "new" / "picture.json"

    assert main(["trace", "export", "a", str(target)]) == 0

    assert str(target) in capsys.readouterr().out
    events = json.loads(target.read_text())["traceEvents"]
    assert {event["tid"] for event in events} == {0, 1, 2, 3}
    assert list(target.parent.iterdir()) == [target]


def test_a_damaged_trace_leaves_no_picture(run: Run, tmp_path: Path) -> None:
    trace(run, TICKS)
    with (run.path / TRACE).open("a") as file:
        file.write("{}\n")
    target = tmp_path / "picture.json"

    assert main(["trace", "export", "a", str(target)]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


@pytest.mark.parametrize("place", ["/", "/proc/picture.json"])
def test_a_place_that_cannot_be_written_ends_with_2(run: Run, capsys: Captured, place: str) -> None:
    trace(run, TICKS)

    assert main(["trace", "export", "a", place]) == 2
    assert f"FILE is '{place}'" in capsys.readouterr().err


def test_without_a_command_it_shows_both(capsys: Captured) -> None:
    assert main(["trace"]) == 0

    out, _ = capsys.readouterr()
    assert "check" in out
    assert "export" in out
