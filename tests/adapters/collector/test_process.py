"""A real collector process on the real engine: 100 ticks, and what it is like from inside."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor

from adapters.collector.process import CollectorProcess
from application.env_report import report_of
from application.ports import Grant, Published
from domain.errors import WorkerError
from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan, checksum
from entrypoints.collector_main import env_builder
from tests.support.cartpole_values import cartpole_values
from tests.support.collector_envs import inspected
from tests.support.processes import lives

PATIENT = 60.0
TICKS = 100
ENVS = 8
PLAN = SlotPlan(layout=RowLayout(obs=5, action=1, critic=5), num_envs=ENVS)
SAVED_AT, REPORTED_AT = 60, (49, 99)


@dataclass(frozen=True)
class Seen:
    """What a run has left."""

    collector: CollectorProcess
    """Closed."""
    pid: int
    first: Tensor
    published: list[Published]
    observations: list[Tensor]
    chunks: list[Tensor]
    others: list[Tensor]
    """The slot that was not granted, which held 99s, after each tick."""
    inside: Mapping[str, object]
    values: Mapping[str, object]


def actions() -> list[Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randn(ENVS, 1, generator=generator) for _ in range(TICKS)]


def grant_of(tick: int) -> Grant:
    return Grant(
        tick=tick, slot=tick % 2, policy_version=tick // 10, report=tick in REPORTED_AT, state=tick == SAVED_AT
    )


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    """Leave this process, and so its children, two CPUs."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:2]))
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="module")
def seen(two_cpus: None, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Do the ticks and copy all that was published."""
    values = cartpole_values(num_envs=ENVS, episode_length_s=1.0)
    file = tmp_path_factory.mktemp("inside") / "inside.json"
    builder = partial(inspected, env_builder(values, None), TICKS, file)
    collector = CollectorProcess(builder, PLAN, checksums=True)
    try:
        collector.wait_ready(PATIENT)
        slots = collector.slots
        pid, first = collector.pid, slots.observation.clone()
        published, observations, chunks, others = [], [], [], []
        for tick, action in enumerate(actions()):
            PLAN.action(slots.action).copy_(action)
            slots.chunks[1 - tick % 2].fill_(99.0)
            collector.grant(grant_of(tick))
            published.append(collector.wait(PATIENT))
            observations.append(slots.observation.clone())
            chunks.append(slots.chunks[tick % 2].clone())
            others.append(slots.chunks[1 - tick % 2].clone())
    finally:
        collector.close()
    inside = json.loads(file.read_text(encoding="utf-8"))
    return Seen(collector, pid, first, published, observations, chunks, others, inside, values)


def test_every_row_equals_that_of_the_same_env_in_this_process_bit_for_bit(seen: Seen) -> None:
    env = env_builder(seen.values, None)()
    before = env.reset()
    assert torch.equal(PLAN.observation(seen.first)[0], before["actor"])
    ends = 0
    for tick, action in enumerate(actions()):
        result = env.step(action)
        done = result.terminated | result.truncated
        ends += int(done.sum())
        rows, valid = PLAN.chunk(seen.chunks[tick])
        columns = PLAN.layout.columns(rows)
        successor = {
            group: torch.where(done.unsqueeze(1), result.final_observations[group], result.observations[group])
            for group in ("actor", "critic")
        }
        expected = (before["actor"], before["critic"], action, successor["actor"], successor["critic"])
        written = (columns.obs, columns.critic_obs, columns.action, columns.next_obs, columns.next_critic_obs)
        assert all(torch.equal(a, b) for a, b in zip(written, expected, strict=True))
        assert torch.equal(columns.reward, result.reward)
        assert torch.equal(columns.terminated.bool(), result.terminated)
        assert torch.equal(columns.truncated.bool(), result.truncated)
        assert torch.equal(valid.bool(), result.valid)
        observed, began = PLAN.observation(seen.observations[tick])
        assert torch.equal(observed, result.observations["actor"])
        assert torch.equal(began.bool(), done)
        before = result.observations
    env.close()

    assert ends > ENVS


def test_at_first_every_row_begins_an_episode(seen: Seen) -> None:
    assert PLAN.observation(seen.first)[1].tolist() == [1.0] * ENVS


def test_headers_say_what_was_granted_and_count_on(seen: Seen) -> None:
    for tick, (published, chunk) in enumerate(zip(seen.published, seen.chunks, strict=True)):
        header = published.header
        assert (header.sequence, header.tick, header.slot) == (tick, tick, tick % 2)
        assert header.policy_version == tick // 10
        assert (header.rows, header.valid) == (ENVS, ENVS)
        assert header.checksum == int(checksum(chunk))


def test_only_the_granted_slot_is_written(seen: Seen) -> None:
    assert all((other == 99.0).all() for other in seen.others)
    assert not any((chunk == 99.0).any() for chunk in seen.chunks)


def test_ticks_follow_one_another_on_the_clock(seen: Seen) -> None:
    times = [time for published in seen.published for time in (published.began, published.ended)]

    assert times == sorted(times)


def test_reports_and_states_come_when_they_were_asked_for(seen: Seen) -> None:
    assert [tick for tick, p in enumerate(seen.published) if p.report is not None] == list(REPORTED_AT)
    assert [tick for tick, p in enumerate(seen.published) if p.state is not None] == [SAVED_AT]


def test_a_report_equals_that_of_the_same_env_in_this_process(seen: Seen) -> None:
    env = env_builder(seen.values, None)()
    env.reset()
    reports = []
    for tick, action in enumerate(actions()):
        env.step(action)
        if tick in REPORTED_AT:
            reports.append(report_of(env))
    env.close()

    assert reports == [p.report for p in seen.published if p.report is not None]


def test_a_saved_state_goes_on_in_a_new_process_with_fresh_episodes(seen: Seen) -> None:
    state = seen.published[SAVED_AT].state
    assert state is not None
    collector = CollectorProcess(env_builder(seen.values, None), PLAN, state=state)
    try:
        collector.wait_ready(PATIENT)
        PLAN.action(collector.slots.action).fill_(0.5)
        collector.grant(dataclasses.replace(grant_of(61), state=True))
        after = collector.wait(PATIENT).state
    finally:
        collector.close()
    env = env_builder(seen.values, None)()
    env.load_state_dict(state)
    env.reset(stagger=True)
    env.step(torch.full((ENVS, 1), 0.5))
    expected = env.state_dict()
    env.close()

    assert after is not None
    assert all(torch.equal(after[name], expected[name]) for name in expected)
    assert after["step_count"] == SAVED_AT + 2


def test_the_process_has_seen_no_gpu_and_no_learner(seen: Seen) -> None:
    assert seen.inside["cuda"] is False
    assert seen.inside["visible"] == ["", ""]
    assert seen.inside["nvidia"] == []
    assert seen.inside["heavy"] == []


def test_threads_follow_two_cpus(seen: Seen) -> None:
    assert seen.inside["torch_threads"] == 1
    # Its own, one more for physics, the lifeline, and one that a numerical library keeps for the second CPU.
    assert int(str(seen.inside["tasks"])) <= 4


def test_close_has_ended_an_idle_process_and_again_does_nothing(seen: Seen) -> None:
    assert not lives(seen.pid)

    seen.collector.close()

    for call in (
        lambda: seen.collector.slots,
        lambda: seen.collector.pid,
        lambda: seen.collector.wait_ready(1.0),
        lambda: seen.collector.grant(grant_of(0)),
        lambda: seen.collector.wait(1.0),
    ):
        with pytest.raises(WorkerError, match="the collector is closed"):
            call()
