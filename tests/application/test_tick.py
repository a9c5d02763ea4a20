"""Ticks over fakes: order, what a batch holds, and what stops a run."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from application.ports import Published
from domain.errors import WorkerError
from domain.replay.ingress import Ingress
from domain.timing import HostPhase
from domain.timing_check import check
from tests.support.fake_collector import LAYOUT, FakeCollector
from tests.support.fake_transfer import FakeTransfer
from tests.support.runtime import Runtime, make_runtime, replay_plan

ENVS, START = 4, 12


def settled(made: Runtime) -> Runtime:
    made.runtime.settle()
    made.runtime.finish()
    return made


def test_a_tick_acts_before_the_updates_and_learns_once_the_replay_has_enough() -> None:
    made = make_runtime(learning_start=START)
    made.ticks(6)
    # Chunks of ticks 0 to 2 make 12 rows: committed in tick 3, learnt from in tick 4.
    assert made.learner.calls == [
        *("start 4", "act"),
        *("start 0", "act") * 3,
        *("start 0", "act", "update 0"),
        *("start 0", "act", "update 1"),
    ]
    assert made.runtime.committed == 20


def test_every_tick_has_one_policy_version_and_its_chunk_says_which() -> None:
    made = make_runtime(learning_start=START)
    made.ticks(9)
    assert [grant.policy_version for grant in made.collector.grants] == [0, 0, 0, 0, 0, 1, 2, 3, 4]
    for grant in made.collector.grants:
        assert (made.collector.actions[grant.tick] == grant.policy_version).all()


@settings(deadline=None, max_examples=1200)
@given(
    st.integers(0, 2**32),
    st.integers(0, 12),
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(0, 11),
    st.none() | st.integers(8, 90),
)
def test_any_schedule_of_the_device_keeps_the_contract(
    seed: int, slowest: int, envs: int, learning_start: int, spare: int, fails_after: int | None
) -> None:
    """FR-25, and every rule of the trace check, also up to where a device fails."""
    transfer = FakeTransfer(seed, slowest=slowest, fails_after=fails_after)
    capacity = max(envs, learning_start) + spare
    made = make_runtime(
        transfer=transfer,
        collector=FakeCollector(envs),
        learning_start=learning_start,
        plan=partial(replay_plan, capacity=capacity),
    )
    try:
        made.ticks(16)
        settled(made)
    except WorkerError:
        assert transfer.run == fails_after
    else:
        assert len(made.traces) == 16
        assert_rows(made, capacity)
    assert check(made.header, made.traces) == []


def assert_rows(made: Runtime, capacity: int) -> None:
    """Each batch holds whole rows, none newer than the tick before its gather and none that was overwritten."""
    envs = made.collector.slots.plan.num_envs
    updates = [trace for trace in made.traces if trace.update is not None]
    assert len(updates) == len(made.learner.batches)
    for trace, rows in zip(updates, made.learner.batches, strict=True):
        assert trace.update is not None
        columns = LAYOUT.columns(rows)
        ticks, env = columns.obs[..., 0], columns.obs[..., 1]
        number = ticks * envs + env
        newest = trace.update.committed
        assert newest == trace.update.gathered_in * envs
        assert (number < newest).all()
        assert (number >= newest - capacity).all()
        assert torch.equal(columns.next_obs[..., 0], ticks + 1)
        assert torch.equal(columns.reward, 1000.0 * ticks + env)
        acted = torch.tensor([made.collector.grants[int(tick)].policy_version for tick in ticks.flatten()])
        assert torch.equal(columns.action[..., 0].flatten(), acted.float())


def test_a_batch_is_a_function_of_seed_tick_and_committed_rows() -> None:
    runs = [make_runtime(transfer=FakeTransfer(seed, slowest=seed)) for seed in (0, 5)]
    other = make_runtime(plan=partial(replay_plan, seed=2))
    for made in (*runs, other):
        made.ticks(9)
    first, second, third = (torch.stack(made.learner.batches) for made in (*runs, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    for a, b in itertools.pairwise(first):
        assert not torch.equal(a, b)


def test_host_phases_fill_the_time_without_a_gap() -> None:
    made = make_runtime()
    made.ticks(6)
    settled(made)
    spans = [span for trace in made.traces for span in trace.host]
    assert [name for name, _, _ in spans[:5]] == [*HostPhase][:5]
    for (_, _, end), (_, begin, _) in itertools.pairwise(spans):
        assert begin == end


def test_two_copies_in_and_one_out_in_a_tick() -> None:
    made = make_runtime()
    made.ticks(8)
    settled(made)
    assert [(trace.copies_in, trace.copies_out) for trace in made.traces] == [(1, 1), *((2, 1),) * 7]


def test_shared_memory_does_not_grow_with_the_replay() -> None:
    sizes = []
    for capacity in (40, 4000):
        made = make_runtime(plan=partial(replay_plan, capacity=capacity))
        made.ticks(3)
        sizes.append(sum(block.nbytes for block in made.transfer.registered))
    assert sizes[0] == sizes[1] == made.collector.slots.plan.host_bytes


def test_a_chunk_without_a_valid_row_is_passed_over() -> None:
    collector = FakeCollector(ENVS, valid=lambda tick: torch.full((ENVS,), float(tick != 2)))
    made = make_runtime(collector=collector)
    made.ticks(8)
    settled(made)
    assert made.runtime.committed == 6 * ENVS
    assert not any((LAYOUT.columns(rows).obs[..., 0] == 2).any() for rows in made.learner.batches)
    assert check(made.header, made.traces) == []


def test_broken_rows_are_replaced_and_learning_goes_on() -> None:
    """FR-33."""
    collector = FakeCollector(ENVS, valid=lambda tick: torch.tensor([1.0, 0.0, 1.0, 1.0]))
    made = make_runtime(collector=collector)
    made.ticks(9)
    rows = torch.cat([batch.flatten(0, 1) for batch in made.learner.batches])
    assert len(rows) == 5 * 16
    assert set(LAYOUT.columns(rows).obs[:, 1].tolist()) == {0.0, 2.0, 3.0}


def damaged(published: Published) -> Published:
    return replace(published, header=replace(published.header, checksum=1))


def late(published: Published) -> Published:
    return replace(published, header=replace(published.header, policy_version=77))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: make_runtime(collector=FakeCollector(2, mischief=damaged)), "and 1 was published"),
        (lambda: make_runtime(collector=FakeCollector(2, mischief=late)), "out of step"),
        (lambda: make_runtime(transfer=FakeTransfer(fails_after=20)), "the GPU failed: planted"),
        (lambda: make_runtime(transfer=FakeTransfer(hangs_after=20), tick_timeout_s=0.05), "runtime.tick_timeout_s"),
    ],
)
def test_what_goes_wrong_ends_the_run_with_its_reason(made: Callable[[], Runtime], message: str) -> None:
    runtime = made()
    with pytest.raises(WorkerError, match=message):
        runtime.ticks(30)


def test_a_slot_is_free_again_only_after_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer moves, and the slot is freed, in a host call that follows the copy's completion."""
    made = make_runtime(transfer=FakeTransfer(3, slowest=9))
    ran: list[int] = []
    commit = Ingress.commit

    def watched(ingress: Ingress, slot: int) -> int:
        ran.append(int(torch.count_nonzero(made.replay.staging)))
        return commit(ingress, slot)

    monkeypatch.setattr(Ingress, "commit", watched)
    made.ticks(5)
    assert len(ran) == 4
    assert all(ran), "the pointer moved before the chunk was in device memory"
