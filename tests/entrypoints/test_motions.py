"""Reference motions of a run: refused before anything is written, kept so that they are found from anywhere."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from domain.motion.command import MotionCommand
from entrypoints.cli.main import main
from entrypoints.collector_main import env_builder
from entrypoints.composition import make_container
from entrypoints.motions import motion_settings
from entrypoints.training import TrainOptions, plan_training
from tests.application.robots.stl_files import write_stl
from tests.support.motion_files import builtin, save, unnamed

SMALL = ("--num-envs", "2", "--set", "ppo.rollout_steps=4", "--set", "ppo.epochs=1", "--set", "ppo.mini_batches=1")
SAC_SMALL = {"train.num_envs": 2, "sac.replay_rows": 64, "sac.batch_size": 2, "sac.learning_start_rows": 2}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to work in."""
    monkeypatch.delenv("UNILAB_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*options: str) -> int:
    return main(["train", "g1_motion", *SMALL, "--iterations", "1", "--logger", "none", "--quiet", *options])


def saved_motions(home: Path) -> Sequence[str]:
    (config,) = home.glob("runs/*/*/*/config.yaml")
    motions: list[str] = yaml.safe_load(config.read_text())["scene"]["motions"]
    return motions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("g1_walk", "--motion", "builtin:squat"), "names builtin:squat, and task 'g1_walk' follows no motion: leave"),
        (("go2_flat", "--motion", "nowhere.npz"), "nowhere.npz, and task 'go2_flat' follows no motion: leave --motion"),
        (("cartpole_balance", "--motion", "builtin:squat"), "task 'cartpole_balance' follows no motion"),
        (("g1_motion", "--set", "scene.motions=[]"), "is empty, and task 'g1_motion' follows a motion: give --motion"),
        (("g1_motion", "--motion", "builtin:squat", "--motion", "builtin:squat"), "builtin:squat is named twice"),
        (("g1_motion", "--motion", "a.npz", "--motion", "./b/../a.npz"), "a.npz is named twice: name each once"),
        (("g1_motion", "--motion", "~nobody-here-7/a.npz"), "there is no such home folder"),
    ],
)
def test_motions_that_a_run_cannot_mean_end_it_before_a_file_is_written(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    """FR-14: neither passed over nor replaced by another one."""
    code = main(["train", *arguments, "--iterations", "1", "--logger", "none", "--quiet"])

    out, err = capsys.readouterr()
    assert message in err
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("motion", "message"),
    [
        ("nowhere.npz", "does not exist: check the path"),
        ("builtin:sqat", "did you mean 'squat'?"),
        ("slow.npz", "its rate is 30 fps and control runs at 50 Hz"),
    ],
)
def test_a_bad_motion_ends_training_before_a_file_is_written(
    home: Path, capsys: pytest.CaptureFixture[str], motion: str, message: str, dry: tuple[str, ...]
) -> None:
    """FR-14."""
    save(home / "slow.npz", unnamed(builtin("squat", 30.0)))

    assert train("--motion", motion, *dry) == 2

    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert [entry.name for entry in home.iterdir()] == ["slow.npz"]


def test_a_motion_file_is_trained_with_and_evaluated_from_another_folder(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(home / "sway.npz", unnamed(builtin("sway")))
    (home / "elsewhere").mkdir()

    assert train("--motion", "sway.npz", "--motion", "builtin:wave") == 0
    assert saved_motions(home) == [str(home / "sway.npz"), "builtin:wave"]
    assert "note: " + str(home / "sway.npz") + ": no joint_names" in capsys.readouterr().err

    monkeypatch.chdir(home / "elsewhere")
    runs = ("--runs-dir", str(home / "runs"))
    assert main(["eval", "seed1", "--episodes", "1", *runs]) == 0
    (home / "sway.npz").unlink()
    assert main(["eval", "seed1", "--episodes", "1", *runs]) == 2
    assert "if it has moved, --motion NEWPATH gives its new place" in capsys.readouterr().err
    assert main(["eval", "seed1", "--episodes", "1", "--motion", "builtin:wave", *runs]) == 0


def test_what_a_check_would_find_is_told_before_training(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = unnamed(builtin("squat"))
    arrays["body_pos_w"] = arrays["body_pos_w"] - np.array([0.0, 0.0, 0.1], dtype=np.float32)
    save(home / "low.npz", arrays)

    assert train("--motion", "low.npz", "--dry-run") == 0

    lines = capsys.readouterr().err.splitlines()
    (note,) = [line for line in lines if "inside the floor" in line]
    assert note.startswith(f"note: {home / 'low.npz'}: the robot is 0.1")


def test_a_path_that_an_override_sets_is_made_absolute_too(home: Path) -> None:
    save(home / "sway.npz", unnamed(builtin("sway")))
    options = TrainOptions(task="g1_motion", overrides=('scene.motions=["sway.npz"]',), dry_run=True)

    plan = plan_training(make_container(home / "runs"), options).plan

    assert plan.config.task.scene.motions == (str(home / "sway.npz"),)


def test_the_collectors_environment_has_the_clips_of_the_plan(home: Path) -> None:
    save(home / "sway.npz", unnamed(builtin("sway")))
    settings = {**SAC_SMALL, **motion_settings(["sway.npz", "builtin:step"])}
    options = TrainOptions(task="g1_motion", algo="sac", settings=settings, dry_run=True)
    plan = plan_training(make_container(home / "runs"), options).plan

    env = env_builder(plan.config.values, None)()
    try:
        assert [clip.frames for clip in env.view.clips] == [341, 401]
        torch.testing.assert_close(env.view.clips[0].joint_pos, builtin("sway").joint_pos)
        assert isinstance(env.view.command_term("motion", MotionCommand), MotionCommand)
        env.reset()
    finally:
        env.close()


def test_an_off_policy_run_is_refused_in_planning_as_well(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FR-17."""
    broken = unnamed(builtin("squat"))
    broken["joint_vel"][7, 3] = np.nan
    save(home / "nan.npz", broken)

    code = main(["train", "g1_motion", "--algo", "flashsac", "--motion", "nan.npz", "--dry-run"])

    assert code == 2
    assert "joint_vel has a NaN at frame 7" in capsys.readouterr().err


def test_no_option_sets_nothing() -> None:
    assert motion_settings(None) == {}
    assert motion_settings(["builtin:squat"]) == {"scene.motions": ["builtin:squat"]}


@pytest.mark.parametrize(("algo", "limit"), [("ppo", "0.25"), ("flashsac", "0.5")])
def test_a_clip_in_the_air_is_refused_by_the_limits_of_the_task(
    home: Path, capsys: pytest.CaptureFixture[str], algo: str, limit: str
) -> None:
    """FR-11: 0.3 m may end PPO's episodes, whose limit is 0.25 m, and not those whose limit is 0.5 m."""

    def raised(height: float) -> str:
        arrays = unnamed(builtin("squat"))
        arrays["body_pos_w"] = arrays["body_pos_w"] + np.array([0.0, 0.0, height], dtype=np.float32)
        return str(save(home / f"raised_{height}.npz", arrays))

    def planned(path: str) -> int:
        return main(["train", "g1_motion", "--algo", algo, "--motion", path, "--dry-run"])

    assert planned(raised(0.3)) == (2 if algo == "ppo" else 0)
    assert planned(raised(0.6)) == 2
    assert f"termination 'anchor_pos' (off by {limit} m) ends every episode" in capsys.readouterr().err


def test_meshes_are_found_from_any_folder_and_a_run_outlives_them(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    meshes = home / "meshes"
    meshes.mkdir()
    write_stl(meshes / "pelvis.STL")
    assert train("--set", "scene.mesh_dir=meshes") == 0
    (config,) = home.glob("runs/*/*/*/config.yaml")
    assert yaml.safe_load(config.read_text())["scene"]["mesh_dir"] == str(meshes)
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    assert main(["eval", str(config.parent), "--episodes", "1"]) == 0
    shutil.rmtree(meshes)
    capsys.readouterr()

    assert main(["eval", str(config.parent), "--episodes", "1"]) == 0
    assert f"the meshes of this run are no longer in {meshes}" in capsys.readouterr().err
