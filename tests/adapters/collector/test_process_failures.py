"""What the parent is told when the process fails, dies, hangs or is slow."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from adapters.collector.process import CollectorProcess, TimeoutSettings
from application.ports import Grant, Published
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, UnilabError, WorkerError
from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan
from tests.support.collector_envs import PLAN, counting, refused, slow, troubled

PATIENT = 60.0
TICK_S = 1.0
LONGER_THAN_A_TICK_S = 1.5
BUILDERS: dict[str, Callable[[], ManagerBasedRlEnv]] = {
    "raises": partial(troubled, 10, "raise"),
    "hangs": partial(troubled, 1, "sleep", 600.0),
    "starts late": partial(slow, LONGER_THAN_A_TICK_S),
    "never starts": partial(slow, 600.0),
    "cannot be built": refused,
}
NAMES = TimeoutSettings(start="runtime.first_s", tick="runtime.each_s")


@dataclass
class StopFlag:
    """What Ctrl-C sets."""

    requested: bool = False


@pytest.fixture(scope="module")
def stop() -> StopFlag:
    """Asked while a process starts."""
    return StopFlag()


@pytest.fixture(scope="module")
def crew(stop: StopFlag) -> Iterator[dict[str, CollectorProcess]]:
    """Start all at once: most of the time is taken by imports."""
    made = {}
    try:
        for name, builder in BUILDERS.items():
            made[name] = CollectorProcess(builder, PLAN, timeouts=NAMES, interrupted=lambda: stop.requested)
        yield made
    finally:
        for collector in made.values():
            collector.close()


def do_tick(collector: CollectorProcess, tick: int, timeout_s: float = PATIENT) -> Published:
    collector.grant(Grant(tick=tick, slot=tick % 2, policy_version=0))
    return collector.wait(timeout_s)


def do_ticks(collector: CollectorProcess, ticks: int) -> None:
    collector.wait_ready(PATIENT)
    for tick in range(ticks):
        do_tick(collector, tick)


def told(what: Callable[[], object]) -> tuple[UnilabError, float]:
    """Return the error of a call, and how long it took."""
    began = time.monotonic()
    with pytest.raises(UnilabError) as caught:
        what()
    return caught.value, time.monotonic() - began


def test_an_exception_in_step_10_arrives_with_tick_phase_and_traceback(crew: dict[str, CollectorProcess]) -> None:
    do_ticks(crew["raises"], 9)

    error, _ = told(lambda: do_tick(crew["raises"], 9))

    assert type(error) is WorkerError
    assert str(error).startswith("the collector process failed in tick 9, phase 'step':\nTraceback")
    assert "in at_step\n" in str(error)
    assert str(error).endswith("ZeroDivisionError: planted in a reward term")


def test_an_environment_that_cannot_be_built_is_the_users_error_and_notes_where(
    crew: dict[str, CollectorProcess],
) -> None:
    error, _ = told(lambda: crew["cannot be built"].wait_ready(PATIENT))

    assert type(error) is ConfigurationError
    assert str(error) == "rewards.alive.weight is 'much': give a number"
    assert error.__notes__[0].startswith("in the collector process, phase 'build':\nTraceback")


def test_a_hanging_tick_names_the_budget_and_a_killed_process_is_seen_at_once(
    crew: dict[str, CollectorProcess],
) -> None:
    hanging = crew["hangs"]
    hanging.wait_ready(PATIENT)

    error, seconds = told(lambda: do_tick(hanging, 0, 0.3))
    assert "did not finish tick 0 within 0.3 s" in str(error)
    assert "raise runtime.each_s" in str(error)
    assert seconds < PATIENT / 4

    os.kill(hanging.pid, signal.SIGKILL)
    error, seconds = told(lambda: hanging.wait(PATIENT))
    assert "was ended by SIGKILL in tick 0" in str(error)
    assert seconds < PATIENT / 4


def test_a_start_may_be_longer_than_a_tick(crew: dict[str, CollectorProcess]) -> None:
    crew["starts late"].wait_ready(PATIENT)

    assert do_tick(crew["starts late"], 0, TICK_S).header.tick == 0


def test_a_start_that_takes_too_long_names_its_own_budget_and_can_be_interrupted(
    crew: dict[str, CollectorProcess], stop: StopFlag
) -> None:
    late = crew["never starts"]

    error, seconds = told(lambda: late.wait_ready(0.5))
    assert "was not ready within 0.5 s" in str(error)
    assert "raise runtime.first_s" in str(error)
    assert seconds >= 0.5

    threading.Timer(0.3, lambda: setattr(stop, "requested", True)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        late.wait_ready(PATIENT)
    stop.requested = False
    assert time.monotonic() - began < PATIENT / 4


@pytest.fixture(scope="module")
def healthy() -> Iterator[CollectorProcess]:
    """Started by a thread that has ended when it was ready."""
    made: list[CollectorProcess] = []

    def start() -> None:
        made.append(CollectorProcess(counting, PLAN))
        made[0].wait_ready(PATIENT)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    try:
        yield made[0]
    finally:
        made[0].close()


def test_a_grant_before_it_is_ready_is_refused(crew: dict[str, CollectorProcess]) -> None:
    with pytest.raises(WorkerError, match="tick 0 was granted before the collector was ready"):
        crew["never starts"].grant(Grant(tick=0, slot=0, policy_version=0))


def test_it_outlives_the_thread_that_started_it_and_refuses_grants_out_of_order(healthy: CollectorProcess) -> None:
    with pytest.raises(WorkerError, match="none was granted"):
        healthy.wait(PATIENT)
    # Counting may begin anywhere, as in a resumed run.
    healthy.grant(Grant(tick=70, slot=0, policy_version=0))
    with pytest.raises(WorkerError, match="tick 71 was granted before tick 70 was awaited"):
        healthy.grant(Grant(tick=71, slot=1, policy_version=0))
    assert healthy.wait(PATIENT).header.sequence == 0

    healthy.grant(Grant(tick=72, slot=1, policy_version=0))
    with pytest.raises(WorkerError, match="tick 72 was granted after tick 70: ticks follow one another"):
        healthy.wait(PATIENT)


def test_an_impossible_amount_of_shared_memory_is_refused() -> None:
    plan = SlotPlan(layout=RowLayout(obs=1, action=1), num_envs=1 << 44)

    with pytest.raises(WorkerError, match="MiB of shared memory for 17592186044416 envs"):
        CollectorProcess(counting, plan)
