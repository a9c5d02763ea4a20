"""``unilab eval`` on a small run."""

import json
from pathlib import Path

import pytest

from entrypoints.cli.main import main

TRAIN = ("train", "cartpole_balance", "--num-envs", "8", "--iterations", "1", "--quiet", "--run-name", "a")
SHORT = ("--set", "env.episode_length_s=0.5", "--set", "ppo.rollout_steps=8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert main([*TRAIN, *SHORT, "--runs-dir", str(folder)]) == 0
    return folder


def test_return_length_and_every_reward_term_are_printed_beside_the_baselines(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "a", "--episodes", "3", "--baselines", "--runs-dir", str(runs)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["policy", "zero", "random"]
    assert {line.split()[0] for line in lines[3:]} >= {"return", "episode", "reward/upright", "termination/time_out"}
    length = next(line for line in lines if line.startswith("episode length"))
    assert length.split()[-3:] == ["10.0", "10.0", "10.0"]


def test_the_figures_go_to_a_file(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "figures.json"

    assert main(["eval", "a", "--episodes", "2", "--json", str(target), "--runs-dir", str(runs)]) == 0

    found = json.loads(target.read_text())["figures"]
    assert list(found) == ["policy"]
    assert (found["policy"]["episodes"], found["policy"]["mean_length"]) == (2, 10.0)
    assert list(found["policy"]["rewards"]) == ["upright"]


def test_the_same_seed_gives_the_same_figures_and_another_one_does_not(runs: Path, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate(("5", "5", "6")):
        target = tmp_path / f"{number}.json"
        main(["eval", "a", "--seed", seed, "--json", str(target), "--baselines", "--runs-dir", str(runs)])
        found.append(json.loads(target.read_text())["figures"])

    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--episodes", "0"), "--episodes is 0"),
        (("--num-envs", "0"), "train.num_envs is 0"),
        (("--video", "a.gif"), "--video is 'a.gif': name a file that ends in .mp4"),
        (("--video-seconds", "0"), "--video-seconds is 0.0"),
        (("--checkpoint", "absent.pt"), "checkpoint absent.pt is missing"),
        (("--sim", "other"), "unknown simulator 'other'"),
        (("--device", "cuda:9"), "device 'cuda:9' is not on this machine"),
        (("--json", "/"), "--json is '/': that is a folder"),
        (("--json", "/proc/a.json"), "--json is '/proc/a.json'"),
        (("--video", "/proc/version/a.mp4"), "--video is '/proc/version/a.mp4': it cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["eval", "a", *arguments, "--runs-dir", str(runs)]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_checkpoint_of_another_task_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ("train", "cartpole_swingup", *TRAIN[2:], *SHORT, "--runs-dir", str(tmp_path))
    assert main(other) == 0
    (checkpoint,) = tmp_path.glob("*/*/*/checkpoints/*.pt")
    capsys.readouterr()

    assert main(["eval", "a", "--checkpoint", str(checkpoint), "--runs-dir", str(runs)]) == 2
    assert "is of task 'cartpole_swingup', not of 'cartpole_balance'" in capsys.readouterr().err
