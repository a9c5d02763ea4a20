"""An environment on the learner's device: the same rows as one that is stepped by hand, under the same contract."""

import pytest
import torch
from torch import Tensor

from application.ports import Grant
from application.resident_collector import ResidentCollector
from application.tick import OffPolicyRuntime, RuntimeCfg
from domain.env import ManagerBasedRlEnv
from domain.errors import WorkerError
from domain.learning.config import ExecutionCfg
from domain.learning.learner import LearnerPlan
from domain.learning.sac import SacLearner
from domain.replay.layout import layout_of
from domain.replay.replay import Replay, ReplayPlan
from domain.replay.slots import SlotPlan
from domain.timing import TickTrace
from domain.timing_check import check
from tests.support.fake_backend import FakeBackend
from tests.support.fake_transfer import CPU, FakeTransfer
from tests.support.full_task import full_cfg
from tests.support.learners import SAC

ENVS = 4


def make_env(seed: int = 3) -> ManagerBasedRlEnv:
    return ManagerBasedRlEnv(full_cfg(), FakeBackend(ENVS, device_like=True), seed=seed)


def make(transfer: FakeTransfer, state: dict[str, Tensor] | None = None) -> tuple[ResidentCollector, SlotPlan]:
    env = make_env()
    plan = SlotPlan(layout=layout_of(env.observations.widths, env.actions.dim), num_envs=ENVS)
    collector = ResidentCollector(env, plan, transfer, state)
    collector.wait_ready(5.0)
    return collector, plan


def test_rows_are_those_of_an_environment_stepped_by_hand() -> None:
    collector, plan = make(FakeTransfer(1, slowest=5))
    env = make_env()
    env.reset(stagger=True)
    observations = env.reset(stagger=True)
    obs, began = plan.observation(collector.slots.observation)
    assert torch.equal(obs, observations["actor"])
    assert began.all()
    generator = torch.Generator().manual_seed(7)
    ended = 0
    for tick in range(40):
        action = torch.empty(ENVS, plan.layout.action).uniform_(-1.0, 1.0, generator=generator)
        plan.action(collector.slots.action).copy_(action)
        collector.grant(Grant(tick=tick, slot=tick % 2, policy_version=tick, report=tick == 39, state=tick == 39))
        published = collector.wait(5.0)
        result = env.step(action)
        rows, valid = plan.chunk(collector.slots.chunks[tick % 2])
        columns = plan.layout.columns(rows)
        assert torch.equal(columns.obs, observations["actor"])
        assert torch.equal(columns.critic_obs, observations["critic"])
        assert torch.equal(columns.action, action)
        assert torch.equal(columns.reward, result.reward)
        done = result.terminated | result.truncated
        for stored, group in ((columns.next_obs, "actor"), (columns.next_critic_obs, "critic")):
            final, seen = result.final_observations[group], result.observations[group]
            assert torch.equal(stored, torch.where(done.unsqueeze(1), final, seen))
        assert torch.equal(columns.terminated + columns.truncated > 0, done)
        assert torch.equal(valid > 0, result.valid)
        assert torch.equal(obs, result.observations["actor"])
        assert torch.equal(began > 0, done)
        header = published.header
        assert (header.tick, header.slot, header.sequence, header.policy_version) == (tick, tick % 2, tick, tick)
        observations = result.observations
        ended += int(done.sum())
    assert ended > 0
    assert published.report is not None
    assert published.report.metrics["episode/count"] == ended
    state, own = published.state, env.state_dict()
    assert state is not None
    assert own.keys() == state.keys()
    collector.close()


def test_it_goes_on_from_a_state_with_fresh_episodes() -> None:
    env = make_env()
    env.reset()
    for _ in range(5):
        env.step(torch.zeros(ENVS, env.actions.dim))
    collector, _ = make(FakeTransfer(), env.state_dict())
    collector.grant(Grant(tick=5, slot=0, policy_version=0, state=True))
    state = collector.wait(5.0).state
    assert state is not None
    assert int(state["step_count"]) == 6


def test_a_whole_runtime_keeps_the_contract_without_shared_memory() -> None:
    transfer = FakeTransfer(5, slowest=6)
    collector, plan = make(transfer)
    sizes = ReplayPlan(
        slots=plan,
        capacity=50,
        updates=SAC.updates_per_step,
        batch_size=SAC.batch_size,
        gamma=SAC.gamma,
        n_step=1,
        seed=1,
    )
    replay = Replay(sizes, CPU, None)
    bounds = (-1.0,) * plan.layout.action, (1.0,) * plan.layout.action
    job = LearnerPlan(
        layout=plan.layout, num_envs=ENVS, action_low=bounds[0], action_high=bounds[1], device=CPU, seed=1
    )
    learner = SacLearner(SAC, job, replay.batches, ExecutionCfg())
    cfg = RuntimeCfg(tick_timeout_s=5.0, learning_start=12)
    runtime = OffPolicyRuntime(learner, replay, collector, transfer, cfg)
    header, traces = runtime.header(0), list[TickTrace]()
    runtime.trace = traces.append
    for tick in range(20):
        runtime.tick(tick)
    runtime.settle()
    runtime.finish()
    assert learner.policy_version == 16
    assert check(header, traces) == []


def test_a_device_that_hangs_is_noticed() -> None:
    # One piece of work waits for the learner's lane, two are the first steps.
    collector, _ = make(FakeTransfer(hangs_after=3))
    collector.grant(Grant(tick=0, slot=0, policy_version=0))
    with pytest.raises(WorkerError, match="the env step of tick 0 \\(runtime.tick_timeout_s\\)"):
        collector.wait(0.05)
