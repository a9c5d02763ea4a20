"""The command as a user meets it: help, bad input, and how it ends."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrypoints.cli.main import main

COMMAND = [sys.executable, "-c", "from entrypoints.cli.main import run; run()"]
# Typer loads pydantic itself.
HEAVY = ("torch", "mujoco", "numpy", "dependency_injector", "rsl_rl", "tensorboard", "yaml")
UNUSED = ("mujoco", "rsl_rl", "triton", "tensorboard", "domain.learning.off_policy", "adapters.collector.process")
BUDGET_S = 1.0


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNILAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def fails_with(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command line that must fail as bad input; return its one line."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_help_loads_nothing_heavy() -> None:
    code = f"""
import sys
from entrypoints.cli.main import main
assert main(["--help"]) == 0
assert main(["train", "--help"]) == 0
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_help_answers_in_under_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    # One of a few, because other work on the machine only ever adds.
    assert any(seconds() < BUDGET_S for _ in range(5))


def test_a_learner_device_is_refused_within_a_second_of_loading_torch_without_engine_or_learner(runs: Path) -> None:
    code = f"""
import sys, time, torch
start = time.perf_counter()
from entrypoints.cli.main import main
assert main(["train", "go2_flat", "--algo", "sac", "--device", "cpu"]) == 2
print(time.perf_counter() - start)
print([name for name in {UNUSED!r} if name in sys.modules])
"""

    def seconds() -> float:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        took, unused = done.stdout.splitlines()[-2:]
        assert unused == "[]"
        return float(took)

    assert any(seconds() < BUDGET_S for _ in range(5))
    assert not runs.exists()


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0

    listed = capsys.readouterr().out
    assert all(name in listed for name in ("train", "eval", "tasks", "runs", "doctor", "--version"))


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("unilab ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train cartpole_balanze", "unknown task 'cartpole_balanze': did you mean 'cartpole_balance'?"),
        ("train", "TASK is missing"),
        ("train cartpole_balance --algo appo", "algorithm 'appo' is not in this version"),
        ("train cartpole_balance --algo sac --device cpu", "algorithm 'sac' learns on exactly one GPU"),
        ("train go2_flat --algo td3 --device xpu", "algorithm 'td3' learns on exactly one GPU"),
        ("train go2_flat --algo flashsac --device cuda:99", "algorithm 'flashsac' learns on exactly one GPU"),
        ("train cartpole_balance --sim mujoko", "unknown simulator 'mujoko': did you mean 'mujoco'?"),
        ("train go2_flat --sim mjwarp --device cpu", "simulator 'mjwarp' trains on a CUDA GPU only"),
        ("train cartpole_balance --device tpu", "device 'tpu' is not on this machine: use auto, cpu"),
        ("train cartpole_balance --num-envs 0", "train.num_envs is 0: Input should be greater than 0"),
        ("train cartpole_balance --num-envs many", "Invalid value for '--num-envs'"),
        ("train cartpole_balance --iterations -3", "train.iterations is -3"),
        ("train cartpole_balance --seed -1", "train.seed is -1"),
        ("train cartpole_balance --set ppo.learning_rat=1", "did you mean 'ppo.learning_rate'?"),
        (
            "train cartpole_balance --set ppo.learning_rate=-1",
            "ppo.learning_rate is -1: Input should be greater than 0",
        ),
        ("train cartpole_balance --set training.num_gpus=2", "training.num_gpus does not exist here"),
        (
            "train go2_flat --algo sac --device cpu --set training.replay_pipeline=cpu_pinned_double_buffer",
            "training.replay_pipeline does not exist here: there is one replay, on the learner's device",
        ),
        ("train cartpole_balance --set env.decimation", "'env.decimation' sets nothing: write key=value"),
        ("train go2_flat --set commands.twist.params.lin_vel_x=[1,-1]", "commands.twist.params.lin_vel_x"),
        ("train cartpole_balance --set train.cpu_ids=[9999]", "cpu_ids [9999]"),
        ("train cartpole_balance --set rewards.upright.params.pole.joints=[knee]", "unknown joint 'knee'"),
        ("train cartpole_balance --logger wandb", "unknown logger 'wandb'"),
        ("train cartpole_balance --num-envs 2000000000", "train.num_envs is 2000000000"),
        ("train cartpole_balance --set env.episode_length_s=1e300", "env.episode_length_s is 1e+300"),
        ("train cartpole_balance --device=", "device '' is not on this machine"),
        ("train cartpole_balance --algo=", "unknown algorithm ''"),
        ("train cartpole_balance --run-name=", "--run-name is ''"),
        ("train cartpole_balance --run-name a/b", "--run-name is 'a/b'"),
        ("train --resume nothing", "no run 'nothing' in"),
        ("train cartpole_balance --gpu 1", "No such option: --gpu"),
        ("eval nothing", "no run 'nothing' in"),
        ("eval", "Missing argument 'run'"),
        ("runs --latest go2_flat", "no run of task 'go2_flat' yet"),
        ("trian", "No such command 'trian'"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    assert message in fails_with(capsys, *arguments.split())
    assert not runs.exists()


def test_a_run_folder_that_cannot_be_written_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs.parent / "file").write_text("")

    found = fails_with(capsys, "train", "cartpole_balance", "--runs-dir", "file/runs")

    assert "runs cannot be written to file/runs" in found
    assert [path.name for path in runs.parent.iterdir()] == ["file"]


def test_an_interrupt_while_starting_ends_quietly() -> None:
    code = """
import os, signal
# A shell starts what runs in the background deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from entrypoints.cli import main
import entrypoints.cli.listing as listing
main.app.registered_commands[2].callback = lambda: os.kill(os.getpid(), signal.SIGINT)
main.run()
"""
    done = subprocess.run([sys.executable, "-c", code, "tasks"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_package_that_is_not_installed_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    code = main(["train", "cartpole_balance", "--dry-run"])

    expected = "error: package 'yaml' is not installed: run 'make setup', or see 'unilab doctor'\n"
    assert (code, *capsys.readouterr()) == (1, "", expected)


def test_the_tasks_are_listed_with_what_trains_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0

    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("go2_flat"))
    assert line.split()[-5:] == ["sac", "td3", "flashsac", "mujoco", "mjwarp"]


def test_a_dry_run_prints_the_resolved_configuration_and_writes_nothing(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "cartpole_balance", "--dry-run", "--num-envs", "7", "--set", "ppo.gamma=0.5"]) == 0

    printed = capsys.readouterr().out
    assert "num_envs: 7" in printed
    assert "gamma: 0.5" in printed
    assert not runs.exists()


def test_an_off_policy_configuration_can_be_looked_at_on_any_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "go2_flat", "--algo", "sac", "--sim", "mjwarp", "--dry-run", "--set", "sac.tau=0.5"]) == 0

    assert "tau: 0.5" in capsys.readouterr().out
    assert main(["train", "go2_flat", "--algo", "sac", "--dry-run", "--set", "sac.tau=2.0"]) == 2
    assert "sac.tau is 2.0" in capsys.readouterr().err
