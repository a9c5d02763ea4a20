"""The loop around ticks, over fakes: what it counts, reports, saves and continues from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adapters.checkpoints.torch_store import TorchCheckpointStore
from application.offpolicy import check_finite, restore_scaler, train_off_policy
from application.ports import EnvReport, Published, Run
from application.training import StopFlag, TrainOutput, TrainPlan, TrainSummary
from domain.errors import ConfigurationError, DataError, OutputError, SimulationError, WorkerError
from domain.learning.reward_scaling import RewardScaler
from domain.timing import HostPhase, TickTrace, TraceHeader
from domain.timing_check import check
from tests.support.fake_collector import FakeCollector
from tests.support.fake_transfer import CPU, FakeTransfer
from tests.support.off_policy_run import Rows
from tests.support.runtime import Runtime, make_runtime

ENVS = 4


class KeptTrace:
    """A trace in memory."""

    def __init__(self, header: TraceHeader) -> None:
        self.header = header
        self.ticks: list[TickTrace] = []
        self.closed = False

    def write(self, tick: TickTrace) -> None:
        self.ticks.append(tick)

    def close(self) -> None:
        self.closed = True


@dataclass
class Loop:
    """A run over fakes."""

    folder: Path
    iterations: int = 20
    made: Runtime = field(default_factory=lambda: make_runtime(learning_start=12))
    rows: Rows = field(default_factory=Rows)
    warnings: list[str] = field(default_factory=list)
    traces: list[KeptTrace] = field(default_factory=list)
    stop: StopFlag = field(default_factory=StopFlag)
    save_interval: int = 8
    trace_of: Callable[[TraceHeader], KeptTrace] = KeptTrace

    def run(self, resume_from: Mapping[str, object] | None = None) -> TrainSummary:
        plan = TrainPlan(
            task="walk", algo="sac", iterations=self.iterations, save_interval=self.save_interval, log_interval=5
        )
        output = TrainOutput(
            run=Run(path=self.folder),
            checkpoints=TorchCheckpointStore(),
            sinks=[self.rows],
            warn=self.warnings.append,
        )
        return train_off_policy(
            self.made.runtime, plan, output, resume_from=resume_from, stop=self.stop, open_trace=self._open_trace
        )

    def _open_trace(self, header: TraceHeader) -> KeptTrace:
        self.traces.append(self.trace_of(header))
        return self.traces[-1]


def saved(path: Path | None) -> dict[str, object]:
    assert path is not None
    return TorchCheckpointStore().load(path, CPU)


def test_a_whole_run(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    summary = loop.run()
    assert (summary.iteration, summary.env_steps, summary.stopped) == (20, 80, False)
    assert sorted(loop.rows.rows) == [5, 10, 15, 20]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "iteration_000008.pt",
        "iteration_000016.pt",
        "iteration_000020.pt",
    ]
    trace = loop.traces[0]
    assert trace.closed
    assert len(trace.ticks) == 20
    assert check(trace.header, trace.ticks) == []
    marked = {tick.tick: tick.marked for tick in trace.ticks if tick.marked}
    log, save = HostPhase.LOG, HostPhase.SAVE
    assert marked == {4: (log,), 7: (save,), 9: (log,), 14: (log,), 15: (save,), 19: (log, save)}


def test_what_a_report_says(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run()
    row = loop.rows.rows[20]
    # The fake reports the tick in which it was asked: the environment's own metrics come through (FR-49).
    assert row["episode/return"] == 19.0
    assert row["env_steps"] == 80.0
    # Ticks 4 to 19 learn; rows of ticks 0 to 18 are committed, of which the ring keeps 40.
    assert row["policy_version"] == row["learner/critic_loss"] == 16.0
    assert row["replay_size"] == 40.0
    assert row["policy_lag"] == 1.0
    assert row["ingress_depth"] == 2.0
    assert row["tail_iterations"] == 20.0
    assert "learner/actor_loss" not in row, "a value that is not there yet is no number"
    for name in ("inference_s", "wait_s", "collect_s", "update_s", "ingest_s", "env_steps_per_sec"):
        assert row[name] > 0.0
    assert "learner/critic_loss" not in loop.rows.rows[5] or loop.rows.rows[5]["policy_version"] == 1.0


def test_nothing_is_learnt_before_the_start_and_warm_up_acts_by_the_policy(tmp_path: Path) -> None:
    """FR-29."""
    loop = Loop(tmp_path, made=make_runtime(learning_start=31), iterations=12)
    loop.run()
    calls = [call for call in loop.made.learner.calls if not call.startswith("start")]
    # 32 rows are committed with the eighth chunk, in tick 8.
    assert calls == [*("act",) * 9, *("act", "update 0", "act", "update 1", "act", "update 0")]
    for tick, action in loop.made.collector.actions.items():
        assert (action == max(0, tick - 9)).all()


def test_a_resumed_run_refills_the_replay_before_it_counts_on(tmp_path: Path) -> None:
    """FR-31."""
    first = Loop(tmp_path, iterations=10)
    checkpoint = saved(first.run().checkpoint)
    assert checkpoint["learner"] == {"policy_version": 6, "tensors": {}}
    assert checkpoint["tick"] == 10
    collector = FakeCollector(ENVS)
    collector.first_tick = 10
    collector.wait_ready(1.0)
    second = Loop(tmp_path, iterations=14, made=make_runtime(learning_start=12, collector=collector))
    summary = second.run(checkpoint)
    # Ticks 10 to 13 refill and are no iterations; 14 to 17 are iterations 11 to 14, each with its updates.
    assert (summary.iteration, summary.env_steps) == (14, 40 + 16 + 16)
    assert [grant.tick for grant in collector.grants] == list(range(10, 18))
    assert [grant.policy_version for grant in collector.grants] == [6, 6, 6, 6, 6, 7, 8, 9]
    assert second.made.learner.policy_version == 10
    trace = second.traces[0]
    assert (trace.header.first_tick, trace.header.first_version) == (10, 6)
    assert check(trace.header, trace.ticks) == []
    assert saved(summary.checkpoint)["tick"] == 18


def test_reward_statistics_go_on_where_they_were(tmp_path: Path) -> None:
    scaler, fresh = RewardScaler(ENVS, 0.9, 5.0, CPU), RewardScaler(ENVS, 0.9, 5.0, CPU)
    loop = Loop(tmp_path, iterations=9, made=make_runtime(scaler=scaler))
    checkpoint = saved(loop.run().checkpoint)
    kept = {name: tensor.clone() for name, tensor in scaler.state_dict().items()}
    assert kept["peak"] > 0
    again = make_runtime(scaler=fresh)
    restore_scaler(again.replay, checkpoint)
    # Episodes begin anew: the returns of those before do not go on.
    assert kept.pop("returns").any()
    assert not fresh.returns.any()
    for name, tensor in kept.items():
        assert torch.equal(fresh.state_dict()[name], tensor), name
    checkpoint["reward_scaler"] = {"peak": torch.zeros(3)}
    with pytest.raises(DataError, match="'reward_scaler' does not fit"):
        restore_scaler(again.replay, checkpoint)


def test_a_stop_ends_with_a_checkpoint_of_the_next_tick(tmp_path: Path) -> None:
    loop = Loop(tmp_path, iterations=1000)
    act = loop.made.learner.act

    def stopping(obs: Tensor, *, deterministic: bool = False) -> Tensor:
        loop.stop.requested = len(loop.made.collector.grants) == 6
        return act(obs, deterministic=deterministic)

    loop.made.learner.act = stopping  # type: ignore[method-assign]
    summary = loop.run()
    assert summary.stopped
    assert (summary.iteration, summary.checkpoint) == (8, tmp_path / "checkpoints" / "iteration_000008.pt")
    assert 8 in loop.rows.rows


def test_a_stop_while_the_replay_refills_leaves_the_checkpoint_as_it_is(tmp_path: Path) -> None:
    first = Loop(tmp_path, iterations=10)
    path = first.run().checkpoint
    checkpoint = saved(path)
    collector = FakeCollector(ENVS)
    second = Loop(tmp_path, iterations=99, made=make_runtime(collector=collector))
    second.stop.requested = True
    summary = second.run(checkpoint)
    assert summary.stopped
    assert summary.iteration == 10
    assert summary.checkpoint is None
    assert not collector.grants


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"task": "run"}, DataError, "is of task 'run', not of 'walk'"),
        ({"algo": "td3"}, DataError, "is of algorithm 'td3', not of 'sac'"),
        ({"tick": -1}, DataError, "'tick' is -1"),
        ({"iteration": 30}, ConfigurationError, "give a higher total"),
        ({"learner": None}, DataError, "'learner' is missing"),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    tmp_path: Path, change: dict[str, object], error: type[Exception], message: str
) -> None:
    checkpoint = saved(Loop(tmp_path, iterations=10).run().checkpoint)
    loop = Loop(tmp_path, iterations=20)
    with pytest.raises(error, match=message):
        loop.run({**checkpoint, **change})
    assert not loop.made.collector.grants


def broken(published: Published) -> Published:
    return replace(
        published, report=published.report and EnvReport(metrics={}, faults={"reward/alive": (5 * ENVS, 1, 4)})
    )


def test_a_replay_that_cannot_fill_because_every_row_breaks_ends_the_run(tmp_path: Path) -> None:
    checkpoint = saved(Loop(tmp_path, iterations=10).run().checkpoint)
    collector = FakeCollector(ENVS, valid=lambda tick: torch.zeros(ENVS), mischief=broken)
    again = Loop(tmp_path, iterations=20, made=make_runtime(collector=collector))
    with pytest.raises(SimulationError, match="reward/alive broke every one of the 20 env steps"):
        again.run(checkpoint)
    assert again.rows.rows == {}


def test_values_that_are_no_longer_numbers_are_shown_and_never_saved(tmp_path: Path) -> None:
    loop = Loop(tmp_path, iterations=10)
    update = loop.made.learner.update

    def diverging(slot: int) -> Mapping[str, Tensor]:
        values = dict(update(slot))
        return values if loop.made.learner.policy_version < 3 else {**values, "critic_loss": torch.tensor(torch.nan)}

    loop.made.learner.update = diverging  # type: ignore[method-assign]
    loop.run()
    assert loop.warnings == ["learner/critic_loss is no number in iteration 10: look at the learning rate"]
    assert math.isnan(loop.rows.rows[10]["learner/critic_loss"])
    with pytest.raises(SimulationError, match="the learner's 'actor/weight' is no longer a number"):
        check_finite({"tensors": {"actor/weight": torch.tensor([1.0, torch.inf])}})


def test_a_trace_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    loop = Loop(tmp_path, iterations=10)
    full = KeptTrace(loop.made.header)

    def fails(tick: TickTrace) -> None:
        raise OutputError("no room")

    full.write = fails  # type: ignore[method-assign]
    loop.trace_of = lambda header: full
    assert loop.run().iteration == 10
    assert loop.warnings == ["no room: the trace ends here"]
    assert full.closed


def few_broken(published: Published) -> Published:
    return replace(published, report=published.report and EnvReport(metrics={}, faults={"reward/alive": (1, 2, 4)}))


def test_faults_are_shown_and_end_a_run_only_where_nothing_else_is_left(tmp_path: Path) -> None:
    loop = Loop(tmp_path, made=make_runtime(collector=FakeCollector(ENVS, mischief=few_broken)))
    loop.run()
    assert loop.warnings[0] == "reward/alive broke 1 env steps since the last report, last in env 2 at step 4"
    assert loop.rows.rows[20]["faults"] == 1.0
    loop = Loop(tmp_path, made=make_runtime(collector=FakeCollector(ENVS, mischief=broken)))
    with pytest.raises(SimulationError, match="reward/alive broke every one of the 20 env steps"):
        loop.run()


@pytest.mark.parametrize(
    "transfer",
    [lambda: FakeTransfer(fails_after=60), lambda: FakeTransfer(hangs_after=60)],
)
def test_a_failing_device_leaves_whole_files(tmp_path: Path, transfer: Callable[[], FakeTransfer]) -> None:
    made = make_runtime(learning_start=12, transfer=transfer(), tick_timeout_s=0.05)
    loop = Loop(tmp_path, made=made, iterations=1000)
    with pytest.raises(WorkerError):
        loop.run()
    newest = max((tmp_path / "checkpoints").iterdir())
    assert saved(newest)["iteration"] == int(newest.stem.rpartition("_")[2]) > 0
    assert loop.traces[0].closed
    assert check(loop.traces[0].header, loop.traces[0].ticks) == []
