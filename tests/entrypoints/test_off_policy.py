"""Off-policy runs with the real collector process, a fake device, and the command itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch
from dependency_injector import providers

from adapters.checkpoints.torch_store import TorchCheckpointStore
from adapters.metrics.trace_file import TraceFileReader
from application.planning import Request, make_plan
from application.trace import TRACE, check_trace
from domain.errors import ConfigurationError, DataError, DeviceError, WorkerError
from entrypoints.cli.main import main
from entrypoints.composition import look_around, make_container
from entrypoints.container import CollectorJob, Container
from entrypoints.off_policy import OffPolicyRun, run_off_policy
from tests.support.fake_gpu_cli import TINY as TINY_SAC
from tests.support.fake_gpu_cli import pretend
from tests.support.fake_transfer import FakeTransfer
from tests.support.off_policy_run import Trial

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
EVERY_STEP = ("env.episode_length_s=0.1", "env.stagger_episodes=false")
GONE_S = 10.0


def collectors() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    shared = sorted(Path("/dev/shm").iterdir()) if sys.platform == "linux" else []
    yield
    assert collectors() == []
    if sys.platform == "linux":
        assert sorted(Path("/dev/shm").iterdir()) == shared


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("algo", ["sac", "td3", "flashsac"])
def test_each_algorithm_trains_keeps_the_contract_and_shows_all_metrics(tmp_path: Path, algo: str) -> None:
    """FR-49, and FR-61 for the learner's process; the collector's threads are looked at in its own tests."""
    trial = Trial(folder=tmp_path, task="go2_flat", algo=algo, iterations=16, settings=EVERY_STEP)
    summary = trial.run(transfer=FakeTransfer(1, slowest=3))
    assert torch.get_num_threads() == 1
    assert (summary.iteration, summary.env_steps) == (16, 64)
    row = trial.rows.rows[16]
    for name in ("episode/return", "reward/tracking_lin_vel", "termination/time_out", "metric/twist/error_vel_yaw"):
        assert name in row, sorted(row)
    assert row["episode/length"] == 5.0
    assert row["policy_version"] == 9.0
    report = check_trace(TraceFileReader(tmp_path / TRACE))
    assert report.breaks == {}
    assert (report.summary.ticks, report.summary.windows) == (16, 9)
    checkpoint = TorchCheckpointStore().load(tmp_path / "checkpoints" / "iteration_000016.pt", CPU)
    assert ("reward_scaler" in checkpoint) == (algo == "flashsac")


def test_a_resumed_run_goes_on_with_fresh_episodes_and_says_so(tmp_path: Path) -> None:
    """FR-31: learner, counters, statistics and the environment's own state go on; the replay is refilled first."""
    first = Trial(folder=tmp_path, algo="flashsac", iterations=12)
    checkpoint = TorchCheckpointStore().load(first.run().checkpoint or tmp_path, CPU)
    env = checkpoint["env"]
    assert isinstance(env, dict)
    assert int(env["step_count"]) == 12
    second = Trial(folder=tmp_path, algo="flashsac", iterations=20)
    summary = second.run(payload=checkpoint)
    assert second.warnings[0].startswith("the replay is not saved: 24 rows of fresh episodes")
    # 12 iterations before, 7 ticks to refill, 8 iterations.
    assert (summary.iteration, summary.env_steps) == (20, 4 * (12 + 7 + 8))
    assert second.rows.rows[20]["policy_version"] == 5.0 + 8.0
    report = check_trace(TraceFileReader(tmp_path / TRACE))
    assert (report.breaks, report.segments) == ({}, 2)
    after = TorchCheckpointStore().load(summary.checkpoint or tmp_path, CPU)["env"]
    assert isinstance(after, dict)
    assert int(after["step_count"]) == 12 + 15


def test_equal_seeds_make_equal_policies_whatever_the_device_s_pace(tmp_path: Path) -> None:
    learners = []
    for seed, slowest in ((0, 0), (8, 6)):
        folder = tmp_path / str(seed)
        summary = Trial(folder=folder, iterations=14).run(transfer=FakeTransfer(seed, slowest=slowest))
        payload = TorchCheckpointStore().load(summary.checkpoint or tmp_path, CPU)
        learners.append(payload["learner"])
    first, second = learners
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["tensors"].keys() == second["tensors"].keys()
    for name, tensor in first["tensors"].items():
        assert torch.equal(tensor, second["tensors"][name]), name


def refused(tmp_path: Path, *settings: str) -> tuple[Exception, list[CollectorJob]]:
    """Return how a run ends that cannot start, and the collectors that it made."""
    container = make_container(tmp_path)
    made: list[CollectorJob] = []
    container.collector.override(providers.Callable(made.append))
    request = Request(task="cartpole_balance", algo="sac", sim="mujoco", device="cpu", overrides=settings)
    plan = make_plan(request, look_around(container))
    trial = Trial(folder=tmp_path)
    run = OffPolicyRun(plan=plan, train=trial.plan(), payload=None, stop=trial.stop, open_run=trial.open_run)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the caller's business
        run_off_policy(container, run, transfer=FakeTransfer())
    return caught.value, made


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("sac.replay_rows=1000000000000",), ("sac.replay_rows", "MiB")),
        (("train.num_envs=1000000", "sac.batch_size=4000000000", "sac.replay_rows=5000000000"), ("sac.batch_size",)),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_before_anything_is_made(
    tmp_path: Path, settings: tuple[str, ...], words: tuple[str, ...]
) -> None:
    error, made = refused(tmp_path, *settings)
    assert isinstance(error, DeviceError)
    for word in words:
        assert word in str(error)
    assert made == []
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_does_not_fit_leaves_the_run_untouched(tmp_path: Path) -> None:
    checkpoint = TorchCheckpointStore().load(Trial(folder=tmp_path, iterations=8).run().checkpoint or tmp_path, CPU)
    other = Trial(folder=tmp_path / "other", iterations=20, settings=("sac.v_max=7.5",))
    with pytest.raises(DataError, match="v_max is 6.0 there and 7.5 here"):
        other.run(payload=checkpoint)
    assert other.facts == []


def test_start_up_has_a_time_limit_of_its_own(tmp_path: Path) -> None:
    """FR-72."""
    trial = Trial(folder=tmp_path, settings=("runtime.start_timeout_s=0.05",))
    with pytest.raises(WorkerError, match="not ready within 0.05 s.*runtime.start_timeout_s"):
        trial.run()
    assert trial.facts == [], "a run folder was made for a run that never began"


def test_a_term_that_fails_is_found_before_the_process_starts(tmp_path: Path) -> None:
    error, made = refused(tmp_path, "rewards.upright.params.cart.joints=[nope]")
    assert isinstance(error, ConfigurationError)
    assert made == []


def test_a_killed_collector_ends_the_run(tmp_path: Path) -> None:
    """FR-69."""
    trial = Trial(folder=tmp_path, iterations=100_000)

    def kill() -> None:
        os.kill(collectors()[0].pid, signal.SIGKILL)

    start = time.monotonic()
    with pytest.raises(WorkerError, match="ended by SIGKILL"):
        trial.run(on_start=kill)
    assert time.monotonic() - start < GONE_S


def test_a_stop_before_the_first_tick_writes_nothing(tmp_path: Path) -> None:
    trial = Trial(folder=tmp_path)
    trial.stop.requested = True
    with pytest.raises(KeyboardInterrupt):
        trial.run()
    assert trial.facts == []


# The command itself.


def command(runs: Path, *arguments: str) -> "subprocess.Popen[str]":
    given = [part for setting in TINY_SAC for part in ("--set", setting)]
    line = [sys.executable, "-m", "tests.support.fake_gpu_cli", "train", *arguments, "--runs-dir", str(runs)]
    return subprocess.Popen(
        line + ([] if "--resume" in arguments else given),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"the command ended before it said {words!r}")


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, list[psutil.Process]]:
    """Return exit code, what was said since, and which of its processes outlive it."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    said, _ = process.communicate(timeout=GONE_S)
    return process.returncode, said, psutil.wait_procs(family, timeout=3.0)[1]


def newest(runs: Path) -> Path:
    (run,) = (runs / "cartpole_balance" / "sac").iterdir()
    return run


@pytest.fixture
def fake_gpu() -> Iterator[None]:
    """Let this process see what the command sees: starting another one takes seconds."""
    transfers = dict(Container.transfers.providers)
    pretend()
    yield
    Container.system.reset_override()
    Container.transfers.set_providers(**transfers)


@pytest.mark.usefixtures("fake_gpu")
def test_ctrl_c_saves_and_the_run_can_be_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FR-67: Ctrl-C goes to every process of the group. While it trains, nobody else continues its run."""
    line = ("cartpole_balance", "--algo", "sac", "--iterations", "100000", "--set", "train.save_interval=15")
    running = command(tmp_path, *line)
    wait_for(running, "iteration 20/")
    run = newest(tmp_path)
    try:
        refused = main(["train", "--resume", str(run), "--iterations", "200000"])
    finally:
        os.killpg(running.pid, signal.SIGINT)
    code, said, left = ended(running)
    assert refused == 2
    assert capsys.readouterr().err.strip().endswith("is being trained by another process: wait for its end")
    assert (code, left) == (130, []), said
    iteration = TorchCheckpointStore().load(max((run / "checkpoints").iterdir()), CPU)["iteration"]
    assert isinstance(iteration, int)
    assert f"stopped at iteration {iteration}" in said
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[-1]["iteration"] == iteration
    assert main(["train", "--resume", str(run), "--iterations", str(iteration + 5)]) == 0
    assert "the replay is not saved: 24 rows" in capsys.readouterr().err
    assert check_trace(TraceFileReader(run / TRACE)).breaks == {}


def end_by_two_ctrl_c(runs: Path, words: str, *more: str) -> None:
    running = command(runs, "cartpole_balance", "--algo", "sac", "--iterations", "100000", *more)
    wait_for(running, words)
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)
        time.sleep(0.002)
    code, said, left = ended(running)
    assert (code, left) == (130, []), said
    for checkpoint in (newest(runs) / "checkpoints").glob("*.pt"):
        TorchCheckpointStore().load(checkpoint, CPU)


def test_two_ctrl_c_end_it_at_once(tmp_path: Path) -> None:
    """FR-67: while it warms up, while it learns, and while it saves; all at once, as starting takes longest."""
    with ThreadPoolExecutor() as pool:
        ends = [
            pool.submit(end_by_two_ctrl_c, tmp_path / "warms up", "run "),
            pool.submit(end_by_two_ctrl_c, tmp_path / "learns", "iteration 20/"),
            pool.submit(end_by_two_ctrl_c, tmp_path / "saves", "iteration 20/", "--set", "train.save_interval=1"),
        ]
    for end in ends:
        end.result()


def test_ctrl_c_saves_also_where_nobody_reads_what_is_said(tmp_path: Path) -> None:
    running = command(tmp_path, "cartpole_balance", "--algo", "sac", "--iterations", "100000")
    wait_for(running, "iteration 20/")
    assert running.stdout is not None
    running.stdout.close()
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=GONE_S) == 130
    checkpoints = list((newest(tmp_path) / "checkpoints").glob("*.pt"))
    assert len(checkpoints) == 1


def test_ctrl_c_while_it_starts_ends_it_without_a_run(tmp_path: Path) -> None:
    running = command(tmp_path, "cartpole_balance", "--algo", "sac")
    deadline = time.monotonic() + 30.0
    while not psutil.Process(running.pid).children(recursive=True):
        assert time.monotonic() < deadline, "the collector was not started"
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    code, said, left = ended(running)
    assert (code, left) == (130, []), said
    assert not (tmp_path / "cartpole_balance").exists()


def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    """FR-70."""
    running = command(tmp_path, "cartpole_balance", "--algo", "sac", "--iterations", "100000")
    wait_for(running, "iteration 20/")
    family = psutil.Process(running.pid).children(recursive=True)
    assert family
    running.kill()
    running.communicate()
    assert psutil.wait_procs(family, timeout=GONE_S)[1] == []


def test_no_option_of_the_product_leads_to_a_cpu_learner() -> None:
    """The fake stands in a test's own container only."""
    container = Container()
    assert sorted(container.transfers.providers) == ["cuda", "mps"]
    for device in ("cpu", "auto"):
        request = Request(task="cartpole_balance", algo="sac", sim="mujoco", device=device, learns=True)
        around = look_around(container)
        if any(name.startswith(("cuda", "mps")) for name in around.devices) and device == "auto":
            continue
        with pytest.raises(DeviceError, match="exactly one GPU"):
            make_plan(request, around)
