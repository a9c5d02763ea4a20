"""The CUDA transfer on a real device, alone and under the whole runtime."""

import time
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from adapters.devices.cuda import CudaTransfer
from application.tick import OffPolicyRuntime, RuntimeCfg
from domain.errors import DeviceError
from domain.learning.config import ExecutionCfg
from domain.learning.learner import LearnerPlan
from domain.learning.sac import SacLearner
from domain.replay.replay import Replay
from domain.timing import TickTrace
from domain.timing_check import check
from domain.transfer import Completion, Lane
from tests.support.fake_collector import LAYOUT, FakeCollector
from tests.support.learners import SAC
from tests.support.runtime import replay_plan

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: streams, events and graphs"),
]
ENVS = 64


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda", 0)


def finish(work: Completion) -> None:
    deadline = time.perf_counter() + 20.0
    while not work.done():
        assert time.perf_counter() < deadline


def test_copies_go_there_and_back_through_registered_memory(device: torch.device) -> None:
    transfer = CudaTransfer(device, graphs=True)
    host, back = torch.arange(1000.0), torch.zeros(1000)
    for block in (host, back):
        transfer.register(block)
    on_device = torch.zeros(1000, device=device)
    finish(transfer.submit(Lane.SIDE, lambda: transfer.copy_in(host, on_device)))
    finish(transfer.submit(Lane.LEARNER, lambda: transfer.copy_out(on_device, back)))
    assert torch.equal(host, back)
    assert transfer.copies == (1, 1)
    transfer.close()


def test_memory_that_cannot_be_registered_is_an_error_with_its_code(device: torch.device) -> None:
    transfer = CudaTransfer(device, graphs=True)
    block = torch.zeros(1000)
    transfer.register(block)
    with pytest.raises(DeviceError, match="cudaHostRegister refused 4000 bytes of shared memory with code 712"):
        transfer.register(block)
    transfer.close()
    # What was released can be registered again.
    again = CudaTransfer(device, graphs=True)
    again.register(block)
    again.close()


def test_recorded_work_draws_anew_and_counts_its_copies(device: torch.device) -> None:
    transfer = CudaTransfer(device, graphs=True)
    generator = torch.Generator(device=device).manual_seed(5)
    host, numbers = torch.zeros(100), torch.zeros(100, device=device)
    transfer.register(host)

    def work() -> None:
        numbers.normal_(generator=generator)
        transfer.copy_out(numbers, host)

    work()
    recorded = transfer.record(work, generator)
    assert transfer.copies == (0, 1)
    seen = []
    for seed in (5, 5, 6):
        generator.manual_seed(seed)
        for _ in range(2):
            finish(transfer.submit(Lane.SIDE, recorded))
            seen.append(host.clone())
    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[4])
    assert transfer.copies == (0, 7)
    transfer.close()


def test_lanes_run_beside_each_other_and_times_are_those_of_the_host(device: torch.device) -> None:
    transfer = CudaTransfer(device, graphs=True)
    before = time.perf_counter()
    slow = transfer.submit(Lane.LEARNER, lambda: torch.cuda._sleep(40_000_000))
    quick = transfer.submit(Lane.SIDE, lambda: torch.cuda._sleep(1_000_000))
    finish(quick)
    assert not slow.done()
    finish(slow)
    after = time.perf_counter()
    (slow_begin, slow_end), (quick_begin, quick_end) = slow.span(), quick.span()
    assert before - 1e-4 < slow_begin < quick_begin < quick_end < slow_end < after + 1e-4
    transfer.close()


@dataclass
class Made:
    """A runtime with a real learner, over a collector without a process."""

    runtime: OffPolicyRuntime
    learner: SacLearner
    replay: Replay
    transfer: CudaTransfer


def make(device: torch.device, *, graphs: bool) -> Made:
    collector = FakeCollector(ENVS, valid=lambda tick: torch.ones(ENVS) if tick % 7 else torch.arange(ENVS) % 2)
    transfer = CudaTransfer(device, graphs=graphs)
    plan = replace(replay_plan(collector, capacity=1000), updates=SAC.updates_per_step, batch_size=SAC.batch_size)
    replay = Replay(plan, device, None)
    bounds = (-1.0,) * LAYOUT.action, (1.0,) * LAYOUT.action
    job = LearnerPlan(layout=LAYOUT, num_envs=ENVS, action_low=bounds[0], action_high=bounds[1], device=device, seed=1)
    learner = SacLearner(SAC, job, replay.batches, ExecutionCfg(graph=graphs))
    cfg = RuntimeCfg(tick_timeout_s=60.0, learning_start=150, checksums=graphs)
    return Made(OffPolicyRuntime(learner, replay, collector, transfer, cfg), learner, replay, transfer)


def test_the_runtime_keeps_the_contract_and_graphs_change_no_batch(device: torch.device) -> None:
    found = []
    for graphs in (True, False):
        made, traces, batches = make(device, graphs=graphs), list[TickTrace](), list[Tensor]()
        header = made.runtime.header(0)
        made.runtime.trace = traces.append
        for tick in range(60):
            made.runtime.tick(tick)
            batches.append(torch.stack([batch.rows for batch in made.replay.batches]).cpu())
        made.runtime.settle()
        made.runtime.finish()
        made.transfer.close()
        assert check(header, traces) == []
        assert [(trace.copies_in, trace.copies_out) for trace in traces[1:]] == [(2, 1)] * 59
        # Three chunks of 64 make more than 150 rows: committed in tick 3, learnt from in tick 4.
        assert made.learner.policy_version == 56
        found.append(LAYOUT.columns(torch.stack(batches)))
    # Observations say tick and environment; actions differ in their last bits.
    for name in ("obs", "next_obs", "reward", "terminated", "truncated"):
        assert torch.equal(*(getattr(columns, name) for columns in found)), name
    torch.testing.assert_close(found[0].action, found[1].action, rtol=0, atol=1e-3)


def test_a_tick_asks_the_device_for_nothing_but_events(device: torch.device) -> None:
    made = make(device, graphs=False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for tick in range(12):
            made.runtime.tick(tick)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert made.learner.policy_version == 8
    made.transfer.close()
