import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from application.onpolicy import StopFlag, TrainOutput, TrainPlan, TrainSummary, train_on_policy
from application.ports import Observations, Payload, Policy, Run
from domain.env import ManagerBasedRlEnv, StepResult
from domain.errors import ConfigurationError, DataError, SimulationError
from tests.application.cartpole_run import NAME, ListSink, PlainStore, make_env, train

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


@pytest.fixture
def env() -> Iterator[ManagerBasedRlEnv]:
    env = make_env(4)
    yield env
    env.close()


def run(
    env: ManagerBasedRlEnv,
    learner: CountingLearner,
    folder: Path,
    *,
    iterations: int = 5,
    sink: ListSink | None = None,
    warnings: list[str] | None = None,
    resume_from: Mapping[str, object] | None = None,
) -> TrainSummary:
    plan = TrainPlan(task=NAME, algo="ppo", iterations=iterations, save_interval=2)
    output = TrainOutput(
        run=Run(path=folder),
        checkpoints=PlainStore(),
        sinks=[sink or ListSink()],
        warn=(warnings if warnings is not None else []).append,
    )
    return train_on_policy(env, learner, plan, output, resume_from=resume_from, stop=learner.stop)


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").glob("*"))


def load(folder: Path, iteration: int) -> Payload:
    return PlainStore().load(folder / f"checkpoints/iteration_{iteration:06d}.pt", torch.device("cpu"))


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
    subprocess.run(program, cwd=ROOT, env={"PYTHONPATH": "src"}, check=True, timeout=120)

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
    env: ManagerBasedRlEnv, tmp_path: Path
) -> None:
    sink = ListSink()

    summary = run(env, CountingLearner(), tmp_path, sink=sink)

    assert list(sink.rows) == [1, 2, 3, 4, 5]
    assert checkpoints(tmp_path) == ["iteration_000002.pt", "iteration_000004.pt", "iteration_000005.pt"]
    assert summary.checkpoint == tmp_path / "checkpoints/iteration_000005.pt"
    assert (summary.iteration, summary.env_steps, summary.stopped) == (5, 5 * 2 * 4, False)


def test_a_resumed_run_goes_on_at_the_next_iteration(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    run(env, CountingLearner(), tmp_path, iterations=2)
    learner, sink = CountingLearner(), ListSink()

    summary = run(env, learner, tmp_path, iterations=4, sink=sink, resume_from=load(tmp_path, 2))

    assert list(sink.rows) == [3, 4]
    assert learner.updates == 4
    assert summary.env_steps == 4 * 2 * 4


def test_a_finished_run_is_not_resumed(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    run(env, CountingLearner(), tmp_path, iterations=2)

    with pytest.raises(ConfigurationError, match="iterations is 2 and the checkpoint is at 2: give a higher total"):
        run(env, CountingLearner(), tmp_path, iterations=2, resume_from=load(tmp_path, 2))


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
    env: ManagerBasedRlEnv, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    run(env, CountingLearner(), tmp_path, iterations=2)

    with pytest.raises(DataError, match=message):
        run(env, CountingLearner(), tmp_path, resume_from=load(tmp_path, 2) | change)


def test_a_stop_ends_after_the_iteration_and_saves(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    learner, sink = CountingLearner(), ListSink()
    learner.stops_at = 3

    summary = run(env, learner, tmp_path, sink=sink)

    assert (summary.iteration, summary.stopped) == (3, True)
    assert checkpoints(tmp_path)[-1] == "iteration_000003.pt"
    assert sink.closed


def test_an_error_keeps_the_last_checkpoint_and_closes_the_sinks(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    learner, sink = CountingLearner(), ListSink()
    learner.fails_at = 4

    with pytest.raises(SimulationError, match="the engine stopped"):
        run(env, learner, tmp_path, sink=sink)

    assert checkpoints(tmp_path) == ["iteration_000002.pt"]
    assert load(tmp_path, 2)["iteration"] == 2
    assert sink.closed


def test_a_rank_that_does_not_write_the_run_leaves_nothing(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    sink = ListSink()

    summary = run(env, CountingLearner(writes_run=False, world_size=2), tmp_path, sink=sink)

    assert sink.rows == {}
    assert checkpoints(tmp_path) == []
    assert summary.env_steps == 2 * 5 * 2 * 4


def test_throughput_spans_the_last_100_iterations_with_both_counts(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    sink = ListSink()

    run(env, CountingLearner(), tmp_path, iterations=3, sink=sink)

    row = sink.rows[3]
    assert (row["tail_window"], row["tail_iterations"]) == (100.0, 3.0)
    seconds = sum(r["collect_s"] + r["update_s"] for r in sink.rows.values())
    assert row["tail_env_steps_per_sec"] == pytest.approx(3 * 2 * 4 / seconds)


def test_metrics_of_episodes_appear_only_where_episodes_ended(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    sink = ListSink()
    env.reset()
    env.view.episode_length.copy_(torch.tensor([997, 10, 10, 10]))
    learner = CountingLearner()
    output = TrainOutput(run=None, checkpoints=PlainStore(), sinks=[sink], warn=print)
    plan = TrainPlan(task=NAME, algo="ppo", iterations=1, save_interval=1)
    state: Payload = {"schema": 1, "task": NAME, "algo": "ppo", "iteration": 0, "env_steps": 0, "tail": []}

    train_on_policy(
        env, learner, plan, output, resume_from=state | {"learner": {"updates": 0}, "env": env.state_dict()}
    )

    assert sink.rows[1]["episode/count"] == 0.0
    assert not {"episode/return", "reward/upright", "termination/time_out"} & sink.rows[1].keys()
    env.reset(torch.zeros(4, dtype=torch.bool))


def test_a_broken_row_is_counted_and_named(env: ManagerBasedRlEnv, tmp_path: Path) -> None:
    sink, warnings = ListSink(), list[str]()
    env.reset()
    learner = CountingLearner()
    state: Payload = {"schema": 1, "task": NAME, "algo": "ppo", "iteration": 0, "env_steps": 0, "tail": []}
    saved = env.state_dict()
    saved["observations/current/actor"][2] = torch.nan
    saved["faults/counts"][0] = 3
    saved["faults/rows"][0] = 2
    saved["faults/steps"][0] = 17

    run(
        env,
        learner,
        tmp_path,
        iterations=1,
        sink=sink,
        warnings=warnings,
        resume_from=state | {"learner": {"updates": 0}, "env": saved},
    )

    assert sink.rows[1]["faults"] == 3.0
    assert warnings == ["physics broke 3 env steps since the last report, last in env 2 at step 17"]
