"""Runs of off-policy algorithms are played where they could not have learnt: on the CPU."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.checkpoints.torch_store import TorchCheckpointStore
from application.config import Choices, to_values
from application.evaluate import evaluate
from application.settings import TrainSettings
from application.tasks.registry import TASKS
from application.training import SCHEMA
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg
from domain.learning.learner import Learner
from entrypoints.cli.main import main
from entrypoints.composition import make_container
from tests.support.learners import FLASHSAC, SAC, TD3, learner, plan_of
from tests.support.tasks import make_env

TASK = "cartpole_balance"
LEARNERS: dict[str, SacCfg | Td3Cfg | FlashSacCfg] = {
    "sac": replace(SAC, obs_normalization=True),
    "td3": TD3,
    "flashsac": FLASHSAC,
}


def moved_learner(cfg: SacCfg | Td3Cfg | FlashSacCfg) -> Learner:
    """Return a learner for 3 cart-poles whose actor has moved: it does not give 0 everywhere, as at first."""
    subject = learner(cfg, plan=plan_of(1, obs=5, critic=5, num_envs=3))
    for slot in (0, 1, 0, 1):
        subject.update(slot)
    return subject


def save_run(root: Path, algo: str) -> Learner:
    """Leave a run as training on a GPU with 3 environments leaves it; return its learner."""
    cfg, store = LEARNERS[algo], make_container(root).run_store()
    subject = moved_learner(cfg)
    declared = TASKS[TASK].build(algo)
    env = replace(declared.env, episode_length_s=0.5)
    task = replace(declared, env=env, learner=cfg, train=TrainSettings(num_envs=3, iterations=4))
    run = store.create(TASK, algo, "a")
    store.write_config(run, to_values(task, Choices(algo=algo, sim="mujoco", device="cuda:0")))
    payload = {"schema": SCHEMA, "task": TASK, "algo": algo, "iteration": 4, "learner": subject.state_dict()}
    TorchCheckpointStore().save(run.checkpoints / "iteration_000004.pt", payload)
    return subject


@pytest.mark.parametrize("algo", LEARNERS)
def test_an_off_policy_run_is_played_on_the_cpu_with_the_learner_s_own_actions(algo: str, tmp_path: Path) -> None:
    subject = save_run(tmp_path / "runs", algo)
    figures = tmp_path / "figures.json"
    cfg = replace(TASKS[TASK].build(algo).env, episode_length_s=0.5, stagger_episodes=False)
    env = make_env(TASK, 5, seed=7, cfg=cfg)

    where = ("--json", str(figures), "--runs-dir", str(tmp_path / "runs"))
    code = main(["eval", "a", "--device", "cpu", "--episodes", "5", "--seed", "7", "--baselines", *where])

    env.reset(seed=7)
    expected = evaluate(env, lambda seen: subject.act(seen["actor"], deterministic=True), episodes=5)
    found = json.loads(figures.read_text())["figures"]
    assert code == 0
    assert (found["policy"]["episodes"], found["policy"]["mean_length"]) == (5, 10.0)
    assert found["policy"]["mean_return"] == expected.mean_return
    assert found["policy"]["mean_return"] != found["zero"]["mean_return"]


def test_a_checkpoint_of_other_networks_than_the_run_s_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path, "sac")
    (config,) = tmp_path.glob("*/*/*/config.yaml")
    text = config.read_text()
    assert "actor_hidden: [16, 8]" in text
    config.write_text(text.replace("actor_hidden: [16, 8]", "actor_hidden: [16, 4]"))

    assert main(["eval", "a", "--device", "cpu", "--runs-dir", str(tmp_path)]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "the checkpoint's 'actor/" in err


def test_an_off_policy_run_is_not_resumed_on_a_cpu_and_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path, "td3")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert main(["train", "--resume", "a", "--device", "cpu", "--runs-dir", str(tmp_path)]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "algorithm 'td3' learns on exactly one GPU" in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_policy_in_another_simulator_is_set_against_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco_warp", reason="mujoco-warp is not installed: pip install 'unilab[mjwarp]'")
    save_run(tmp_path / "runs", "sac")
    figures = tmp_path / "figures.json"
    where = ("--json", str(figures), "--runs-dir", str(tmp_path / "runs"))

    assert main(["eval", "a", "--sim", "mjwarp", "--device", "cpu", "--episodes", "2", *where]) == 0
    shown = capsys.readouterr().out
    found = json.loads(figures.read_text())["figures"]
    here, own = found["policy"]["mean_return"], found["policy in its own simulator"]["mean_return"]
    assert here == pytest.approx(own, abs=1e-3)
    lines = [line.split() for line in shown.partition("sim to sim")[2].splitlines()]
    assert lines[0] == ["mjwarp", "its", "own", "difference"]
    assert ["return", f"{here:.4f}", f"{own:.4f}", f"{here - own:+.4f}"] in lines
    assert [line[0] for line in lines[4:]] == ["reward/upright"]


def test_what_cannot_be_set_against_its_own_simulator_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(tmp_path / "runs", "sac")
    config = next((tmp_path / "runs").rglob("config.yaml"))
    config.write_text(config.read_text().replace("sim: mujoco", "sim: mjwarp"))

    assert (
        main(
            ["eval", "a", "--sim", "mujoco", "--device", "cpu", "--episodes", "2", "--runs-dir", str(tmp_path / "runs")]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "no comparison with simulator 'mjwarp', where it was trained: that takes a CUDA GPU" in shown
