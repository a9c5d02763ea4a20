"""Training from the command line: what it leaves behind, resumes and refuses."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from entrypoints.cli.main import main

COMMAND = [sys.executable, "-c", "from entrypoints.cli.main import run; run()"]
SMALL = (
    "--num-envs",
    "8",
    "--set",
    "ppo.rollout_steps=8",
    "--set",
    "ppo.epochs=1",
    "--set",
    "env.episode_length_s=0.5",
)
TRAIN = ("train", "cartpole_balance", *SMALL)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNILAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def only_run(runs: Path) -> Path:
    (found,) = runs.glob("*/*/*")
    return found


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_all_its_files(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*TRAIN, "--iterations", "2", "--run-name", "first", "--logger", "tensorboard"])

    run = only_run(runs)
    assert code == 0
    assert run.name.endswith("-first")
    assert [row["iteration"] for row in rows(run)] == [1, 2]
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["num_envs"] == 8
    assert json.loads((run / "environment.json").read_text())["device"]["name"] == "cpu"
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["iteration_000002.pt"]
    assert list(run.glob("events.out.tfevents.*"))
    printed = capsys.readouterr().out
    assert "control 20 Hz, physics 100 Hz, episodes of 10 steps; observations actor 5, critic 5; actions 1" in printed
    assert "iteration 2/2" in printed
    assert f"evaluate it: unilab eval {run}" in printed


def test_quiet_prints_only_the_end(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--iterations", "1", "--quiet"]) == 0

    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["finished", "checkpoint", "evaluate"]
    assert err == ""


def test_a_resumed_run_goes_on_in_its_folder_and_ends_like_one_that_never_stopped(runs: Path) -> None:
    main([*TRAIN, "--iterations", "4", "--quiet"])
    whole = only_run(runs)
    main([*TRAIN, "--iterations", "2", "--quiet", "--run-name", "halves"])

    assert main(["train", "cartpole_balance", "--resume", "halves", "--iterations", "4", "--quiet"]) == 0

    (halves,) = runs.glob("*/*/*-halves")
    assert [row["iteration"] for row in rows(halves)] == [1, 2, 3, 4]
    assert yaml.safe_load((halves / "config.yaml").read_text())["train"]["iterations"] == 4
    for name in ("episode/return", "loss/value", "loss/surrogate"):
        assert [row.get(name) for row in rows(halves)] == [row.get(name) for row in rows(whole)]
    last = [torch.load(run / "checkpoints/iteration_000004.pt", weights_only=True) for run in (whole, halves)]
    for name, weight in last[0]["learner"]["actor"].items():
        assert torch.equal(weight, last[1]["learner"]["actor"][name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cartpole_swingup",), "is of task 'cartpole_balance', not of 'cartpole_swingup'"),
        (("--algo", "sac"), "is of algo 'ppo', not of 'sac'"),
        (("--sim", "other"), "is of sim 'mujoco', not of 'other'"),
        ((), "the run has finished its 1 iterations: give a higher total with --iterations"),
        (("--iterations", "0"), "train.iterations is 0"),
        (("--seed", "2"), "a resumed run keeps its name and values: leave train.seed out"),
        (("--set", "ppo.gamma=0.5"), "leave --set out"),
        (("--set", "scene.max_contacts=8"), "give scene.max_contacts and scene.max_constraints together"),
        (("--run-name", "b"), "leave --run-name out"),
        (("--device", "cuda:7"), "device 'cuda:7' is not on this machine"),
    ],
)
def test_a_resume_that_contradicts_its_run_is_refused_and_changes_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    main([*TRAIN, "--iterations", "1", "--quiet", "--run-name", "a"])
    before = snapshot(only_run(runs))
    capsys.readouterr()

    code = main(["train", *arguments, "--resume", "a"])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert snapshot(only_run(runs)) == before


def test_a_resume_may_give_larger_buffers(runs: Path) -> None:
    main([*TRAIN, "--iterations", "1", "--quiet", "--run-name", "a"])
    buffers = ("--set", "scene.max_contacts=8", "--set", "scene.max_constraints=64")

    assert main(["train", "--resume", "a", "--iterations", "2", "--quiet", *buffers]) == 0

    assert (only_run(runs) / "checkpoints/iteration_000002.pt").exists()


def snapshot(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_damaged_checkpoint_is_refused_and_changes_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TRAIN, "--iterations", "1", "--quiet", "--run-name", "a"])
    checkpoint = only_run(runs) / "checkpoints/iteration_000001.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    before = snapshot(only_run(runs))
    capsys.readouterr()

    for arguments in (["train", "--resume", "a", "--iterations", "2"], ["eval", "a"]):
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "iteration_000001.pt is damaged or no checkpoint" in err
    assert snapshot(only_run(runs)) == before


def test_a_checkpoint_of_another_shape_is_refused_and_changes_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*TRAIN, "--iterations", "1", "--quiet", "--run-name", "a"])
    config = only_run(runs) / "config.yaml"
    config.write_text(config.read_text().replace("actor_hidden: [64, 64]", "actor_hidden: [32, 32]"))
    before = snapshot(only_run(runs))
    capsys.readouterr()

    assert main(["train", "--resume", "a", "--iterations", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert snapshot(only_run(runs)) == before


def test_a_saved_term_that_the_task_does_not_declare_is_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TRAIN, "--iterations", "1", "--quiet", "--run-name", "a"])
    config = only_run(runs) / "config.yaml"
    config.write_text(config.read_text().replace("  upright:", "  upside_down:"))
    capsys.readouterr()

    assert main(["eval", "a"]) == 2
    assert "rewards.upside_down is not declared by task 'cartpole_balance'" in capsys.readouterr().err


def started(process: "subprocess.Popen[str]", runs: Path, sign: str = "metrics.jsonl") -> Path:
    """Wait until the run holds the file ``sign``, and return its folder."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if list(runs.glob(f"*/*/*/{sign}")):
            return only_run(runs)
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def test_ctrl_c_saves_and_ends_with_130(runs: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, *TRAIN, "--iterations", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    run = started(process, runs)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in err
    assert "stopped at iteration" in out
    last = rows(run)[-1]["iteration"]
    saved = torch.load(run / f"checkpoints/iteration_{last:06d}.pt", weights_only=True)
    assert saved["iteration"] == last


def test_a_second_ctrl_c_ends_at_once_with_the_earlier_checkpoint_loadable(runs: Path) -> None:
    arguments = (*TRAIN, "--iterations", "100000", "--set", "train.save_interval=1")
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    run = started(process, runs, "checkpoints/iteration_000001.pt")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in err
    newest = max((run / "checkpoints").glob("iteration_*.pt"))
    assert torch.load(newest, weights_only=True)["iteration"] >= 1


@pytest.mark.parametrize("damage", ["envs", "elapsed", "generator", "moments", "weights", "rate"])
def test_a_resume_that_fails_leaves_the_run_as_it_was(
    runs: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    main([*TRAIN, "--iterations", "1", "--logger", "none"])
    run = only_run(runs)
    config, checkpoint = run / "config.yaml", run / "checkpoints" / "iteration_000001.pt"
    payload = torch.load(checkpoint, weights_only=True)
    if damage == "envs":
        config.write_text(config.read_text().replace("num_envs: 8", "num_envs: 9"))
    elif damage == "elapsed":
        del payload["env"]["elapsed"]
    elif damage == "generator":
        payload["env"]["rng/generator"].zero_()
    elif damage == "moments":
        del payload["learner"]["optimizer"]["0"]["step"]
    elif damage == "weights":
        payload["learner"]["actor"]["mlp.0.bias"][0] = torch.nan
    else:
        payload["learner"]["learning_rate"] = float("nan")
    torch.save(payload, checkpoint)
    before = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    capsys.readouterr()

    code = main(["train", "--resume", str(run), "--iterations", "3"])

    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()} == before


def test_a_total_below_what_is_done_says_where_the_run_is(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TRAIN, "--iterations", "2", "--logger", "none", "--quiet"])
    capsys.readouterr()

    code = main(["train", "--resume", str(only_run(runs)), "--iterations", "1"])

    assert code == 2
    assert capsys.readouterr().err == "error: the run is at iteration 2, beyond a total of 1: give a higher one\n"


def test_a_reader_that_goes_away_does_not_end_the_run(runs: Path) -> None:
    arguments = ["train", "cartpole_balance", *SMALL, "--iterations", "30", "--logger", "none"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()

    assert (process.returncode, error) == (0, b"")
    assert [row["iteration"] for row in rows(only_run(runs))] == list(range(1, 31))


def test_a_run_whose_every_step_is_broken_fails_and_names_the_source(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coarse = ("--set", "env.sim_dt=100", "--set", "env.episode_length_s=50000")
    small = ("--num-envs", "8", "--set", "ppo.rollout_steps=8", "--iterations", "3", "--logger", "none")

    code = main(["train", "cartpole_balance", *small, *coarse])

    assert code == 1
    err = capsys.readouterr().err
    assert "error: physics broke every one of the 64 env steps up to iteration 1, so nothing can be learnt" in err
    assert [row["faults"] for row in rows(only_run(runs))] == [64.0]
