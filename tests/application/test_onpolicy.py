import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adapters.checkpoints.torch_store import TorchCheckpointStore
from adapters.mujoco.backend import MujocoBackend
from application.onpolicy import train_on_policy
from application.ports import Observations, Payload, Policy, Run
from application.tasks.registry import TASKS
from application.training import StopFlag, TrainOutput, TrainPlan, TrainSummary
from domain.env import ManagerBasedRlEnv, StepResult
from domain.errors import ConfigurationError, DataError, SimulationError
from tests.application.cartpole_run import NAME, ListSink, train
from tests.support.tasks import make_env

ROOT = Path(__file__).parents[2]


class CountingLearner:
    """Does nothing at all, and counts its updates; may raise or ask for a stop at one of them."""

    rollout_steps = 2

    def __init__(self, *, writes_run: bool = True, world_size: int = 1) -> None:
        self.writes_run = writes_run
        self.world_size = world_size
        self.updates = 0
        self.fails_at = 0
        self.stop = StopFlag()
        self.stops_at = 0

    def act(self, observations: Observations) -> Tensor:
        return torch.zeros(len(observations["actor"]), 1)

    def record(self, result: StepResult) -> None:
        pass

    def update(self, observations: Observations) -> dict[str, float]:
        self.updates += 1
        if self.updates == self.fails_at:
            raise SimulationError("the engine stopped")
        self.stop.requested = self.updates == self.stops_at
        return {"loss/value": 0.5}

    def policy(self) -> Policy:
        return self.act

    def state_dict(self) -> Payload:
        return {"updates": self.updates}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        updates = state["updates"]
        assert isinstance(updates, int)
        self.updates = updates


class Outputs:
    """Where a run of a test leaves everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink = ListSink()
        self.warnings: list[str] = []


@pytest.fixture
def out(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path)


@pytest.fixture
def env() -> Iterator[ManagerBasedRlEnv]:
    env = make_env(NAME, 4)
    yield env
    env.close()


def run(
    env: ManagerBasedRlEnv,
    learner: CountingLearner,
    out: Outputs,
    *,
    iterations: int = 5,
    resume_from: Mapping[str, object] | None = None,
) -> TrainSummary:
    plan = TrainPlan(task=NAME, algo="ppo", iterations=iterations, save_interval=2)
    output = TrainOutput(
        run=Run(path=out.folder), checkpoints=TorchCheckpointStore(), sinks=[out.sink], warn=out.warnings.append
    )
    return train_on_policy(env, learner, plan, output, resume_from=resume_from, stop=learner.stop)


def saved_before_training(env: ManagerBasedRlEnv) -> Payload:
    return {
        "schema": 1,
        "task": NAME,
        "algo": "ppo",
        "iteration": 0,
        "env_steps": 0,
        "tail": [],
        "learner": {"updates": 0},
        "env": env.state_dict(),
    }


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob("*"))


def load(folder: Path, iteration: int) -> Payload:
    return TorchCheckpointStore().load(folder / f"checkpoints/iteration_{iteration:06d}.pt", torch.device("cpu"))


def flat(state: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in state.items():
        found |= flat(value, f"{prefix}{key}/") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def test_a_run_resumed_in_a_new_process_equals_one_in_one_go(tmp_path: Path) -> None:
    sink = ListSink()
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(whole, 20, sinks=[sink])
    start = whole / "checkpoints/iteration_000010.pt"
    resumed.mkdir()

    program = [sys.executable, "-m", "tests.application.cartpole_run", str(resumed), str(start), "20"]
    subprocess.run(
        program, cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", *sys.path])}, check=True, timeout=120
    )

    expected, found = flat(load(whole, 20)), flat(load(resumed, 20))
    assert expected.keys() == found.keys()
    for name in expected.keys() - {"tail"}:
        value, other = expected[name], found[name]
        if isinstance(value, Tensor):
            assert isinstance(other, Tensor)
            assert torch.equal(value, other), name
        else:
            assert value == other, name
    rows = {int(i): row for i, row in json.loads((resumed / "metrics.json").read_text(encoding="utf-8")).items()}
    assert rows == {i: row for i, row in sink.timeless().items() if i > 10}
    assert any("episode/return" in row for row in rows.values())


def test_iterations_are_counted_from_1_and_saved_at_the_interval_and_the_end(
    env: ManagerBasedRlEnv, out: Outputs
) -> None:
    summary = run(env, CountingLearner(), out)

    assert list(out.sink.rows) == [1, 2, 3, 4, 5]
    assert checkpoints(out.folder) == ["iteration_000002.pt", "iteration_000004.pt", "iteration_000005.pt"]
    assert summary.checkpoint == out.folder / "checkpoints/iteration_000005.pt"
    assert (summary.iteration, summary.env_steps, summary.stopped) == (5, 5 * 2 * 4, False)


def test_a_resumed_run_goes_on_at_the_next_iteration(env: ManagerBasedRlEnv, out: Outputs) -> None:
    run(env, CountingLearner(), out, iterations=2)
    learner, later = CountingLearner(), Outputs(out.folder)

    summary = run(env, learner, later, iterations=4, resume_from=load(out.folder, 2))

    assert list(later.sink.rows) == [3, 4]
    assert learner.updates == 4
    assert summary.env_steps == 4 * 2 * 4


def test_a_finished_run_is_not_resumed(env: ManagerBasedRlEnv, out: Outputs) -> None:
    run(env, CountingLearner(), out, iterations=2)

    with pytest.raises(ConfigurationError, match="iterations is 2 and the checkpoint is at 2: give a higher total"):
        run(env, CountingLearner(), out, iterations=2, resume_from=load(out.folder, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "go2_flat"}, f"is of task 'go2_flat', not of '{NAME}'"),
        ({"algo": "sac"}, "is of algorithm 'sac', not of 'ppo'"),
        ({"schema": 7}, "has schema 7, this version reads 1"),
        ({"learner": None}, "entry 'learner' is missing or damaged"),
        ({"env": 3}, "entry 'env' is missing or damaged"),
        ({"env": {}}, "saved state lacks"),
        ({"iteration": "2"}, "entry 'iteration' is 2, not a count"),
        ({"tail": [1]}, "entry 'tail' is damaged"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    env: ManagerBasedRlEnv, out: Outputs, change: dict[str, object], message: str
) -> None:
    run(env, CountingLearner(), out, iterations=2)

    with pytest.raises(DataError, match=message):
        run(env, CountingLearner(), out, resume_from=load(out.folder, 2) | change)


def test_a_stop_ends_after_the_iteration_and_saves(env: ManagerBasedRlEnv, out: Outputs) -> None:
    learner = CountingLearner()
    learner.stops_at = 3

    summary = run(env, learner, out)

    assert (summary.iteration, summary.stopped) == (3, True)
    assert checkpoints(out.folder)[-1] == "iteration_000003.pt"
    assert out.sink.closed


def test_a_stop_before_the_first_iteration_trains_nothing(env: ManagerBasedRlEnv, out: Outputs) -> None:
    learner = CountingLearner()
    learner.stop.requested = True

    summary = run(env, learner, out)

    assert (summary.iteration, summary.stopped, learner.updates) == (0, True, 0)


def test_an_error_keeps_the_last_checkpoint_and_closes_the_sinks(env: ManagerBasedRlEnv, out: Outputs) -> None:
    learner = CountingLearner()
    learner.fails_at = 4

    with pytest.raises(SimulationError, match="the engine stopped"):
        run(env, learner, out)

    assert checkpoints(out.folder) == ["iteration_000002.pt"]
    assert load(out.folder, 2)["iteration"] == 2
    assert out.sink.closed


def test_a_rank_that_does_not_write_the_run_leaves_nothing(env: ManagerBasedRlEnv, out: Outputs) -> None:
    summary = run(env, CountingLearner(writes_run=False, world_size=2), out)

    assert out.sink.rows == {}
    assert checkpoints(out.folder) == []
    assert summary.env_steps == 2 * 5 * 2 * 4


def test_throughput_spans_the_last_100_iterations_with_both_counts(env: ManagerBasedRlEnv, out: Outputs) -> None:
    run(env, CountingLearner(), out, iterations=3)

    row = out.sink.rows[3]
    assert (row["tail_window"], row["tail_iterations"]) == (100.0, 3.0)
    seconds = sum(r["collect_s"] + r["update_s"] for r in out.sink.rows.values())
    assert row["tail_env_steps_per_sec"] == pytest.approx(3 * 2 * 4 / seconds)


def test_metrics_of_episodes_appear_only_where_episodes_ended(env: ManagerBasedRlEnv, out: Outputs) -> None:
    env.reset()
    env.view.episode_length.copy_(torch.tensor([995, 10, 10, 10]))

    run(env, CountingLearner(), out, iterations=3, resume_from=saved_before_training(env))

    episodes = {"episode/return", "episode/length", "reward/upright", "termination/time_out"}
    assert [row["episode/count"] for row in out.sink.rows.values()] == [0.0, 0.0, 1.0]
    assert [len(episodes & row.keys()) for row in out.sink.rows.values()] == [0, 0, 4]


def test_a_broken_row_is_counted_and_named(env: ManagerBasedRlEnv, out: Outputs) -> None:
    env.reset()
    saved = env.state_dict()
    for name, value in {"counts": 3, "rows": 2, "steps": 17}.items():
        saved[f"faults/{name}"][0] = value

    run(env, CountingLearner(), out, iterations=1, resume_from=saved_before_training(env) | {"env": saved})

    assert out.sink.rows[1]["faults"] == 3.0
    assert out.warnings == ["physics broke 3 env steps since the last report, last in env 2 at step 17"]


def test_training_starts_at_random_ages_although_recording_has_reset_the_environment_before(
    env: ManagerBasedRlEnv, out: Outputs
) -> None:
    with env.kept_state():
        pass

    ages: list[list[int]] = []

    class Looks(CountingLearner):
        def act(self, observations: Observations) -> Tensor:
            ages.append(env.view.episode_length.tolist())
            return super().act(observations)

    run(env, Looks(), out, iterations=1)

    assert len(set(ages[0])) == 4


class TooSmallBuffers(MujocoBackend):
    """An engine that has lost contacts."""

    def notice(self) -> str:  # type: ignore[override]
        return "2 of 4 envs had more than 1 constraints"


@pytest.mark.parametrize("strict", [False, True])
def test_what_an_engine_has_to_say_is_shown_or_ends_a_strict_run(out: Outputs, *, strict: bool) -> None:
    """FR-52."""
    task = TASKS[NAME].build("ppo")
    env = ManagerBasedRlEnv(task.env, TooSmallBuffers(task.make_scene(), 4), seed=1)
    output = TrainOutput(
        run=None, checkpoints=TorchCheckpointStore(), sinks=[out.sink], warn=out.warnings.append, strict=strict
    )
    plan = TrainPlan(task=NAME, algo="ppo", iterations=2, save_interval=2)
    learner = CountingLearner()
    ends = pytest.raises(SimulationError, match="2 of 4 envs .*strict_buffers is on") if strict else nullcontext()

    with ends:
        train_on_policy(env, learner, plan, output, resume_from=None, stop=learner.stop)

    assert out.warnings == ([] if strict else ["2 of 4 envs had more than 1 constraints"] * 2)
