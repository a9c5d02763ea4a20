"""When events fire, and for which rows."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.event import EventManager, EventTermCfg
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import draw_block, make_view, mask

ALL_ROWS = mask(1, 1)


class Mark:
    """Notes the rows of every call that has any."""

    calls: list[list[bool]]

    def __init__(self, env: EnvView) -> None:
        self.env = env

    def __call__(self, rows: Tensor) -> None:
        if rows.any():
            self.calls.append(rows.tolist())


class OnlyReset(Mark):
    modes = ("reset",)


@pytest.fixture
def calls() -> list[list[bool]]:
    Mark.calls = []
    return Mark.calls


def manager(num_envs: int = 2, **settings: Any) -> tuple[EventManager, EnvView]:
    view = make_view(num_envs)
    events = EventManager({"mark": EventTermCfg(func=Mark, **settings)}, view)
    draw_block(view)
    events.startup(torch.ones(num_envs, dtype=torch.bool))
    return events, view


def run(events: EventManager, view: EnvView, steps: int, live: Tensor = ALL_ROWS) -> None:
    for _ in range(steps):
        view.rng.advance()
        view.step_count += 1
        events.compute(live)


def test_a_startup_event_runs_once_for_all_rows(calls: list[list[bool]]) -> None:
    events, view = manager(mode="startup")
    run(events, view, 3)
    events.reset(ALL_ROWS)

    assert calls == [[True, True]]
    assert not events.acts_in_step


def test_a_reset_event_runs_for_the_reset_rows(calls: list[list[bool]]) -> None:
    events, view = manager(mode="reset")
    run(events, view, 2)
    events.reset(mask(0, 1))

    assert calls == [[False, True]]


def test_a_step_event_runs_every_step_for_live_rows(calls: list[list[bool]]) -> None:
    events, view = manager(mode="step")
    run(events, view, 2, mask(1, 0))

    assert calls == [[True, False], [True, False]]
    assert events.acts_in_step


def test_an_interval_event_fires_every_0_1_s(calls: list[list[bool]]) -> None:
    events, view = manager(mode="interval", interval_s=(0.1, 0.1))
    fired = []
    for number in range(1, 16):
        run(events, view, 1)
        if calls:
            fired.append(number)
            calls.clear()

    assert fired == [5, 10, 15]  # steps of 0.02 s


@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 3))
def test_intervals_lie_in_their_range_of_steps(low: int, more: int, seed: int) -> None:
    Mark.calls = []
    view = make_view(2, seed=seed)
    cfg = EventTermCfg(func=Mark, mode="interval", interval_s=(low * 0.02, (low + more) * 0.02))
    events = EventManager({"mark": cfg}, view)
    draw_block(view)
    events.startup(ALL_ROWS)
    fired = [0]
    for number in range(1, 60):
        Mark.calls.clear()
        run(events, view, 1)
        if any(rows[0] for rows in Mark.calls):
            fired.append(number)

    gaps = [later - earlier for earlier, later in pairwise(fired)]
    assert gaps
    assert all(low <= gap <= low + more for gap in gaps)


def test_a_reset_restarts_the_timer_of_its_rows(calls: list[list[bool]]) -> None:
    events, view = manager(mode="interval", interval_s=(0.1, 0.1))
    run(events, view, 3)
    events.reset(mask(1, 0))
    run(events, view, 2)
    assert calls == [[False, True]]

    run(events, view, 3)

    assert calls == [[False, True], [True, False]]


def test_a_global_timer_fires_for_all_rows_at_once_and_ignores_resets(calls: list[list[bool]]) -> None:
    events, view = manager(mode="interval", interval_s=(0.04, 0.2), is_global_time=True)
    for _ in range(30):
        run(events, view, 1)
        events.reset(mask(1, 0))

    assert len(calls) >= 3
    assert all(rows == [True, True] for rows in calls)


def test_a_row_that_is_done_does_not_fire(calls: list[list[bool]]) -> None:
    events, view = manager(mode="interval", interval_s=(0.02, 0.02))
    run(events, view, 1, mask(0, 1))

    assert calls == [[False, True]]


def test_a_row_that_was_reset_too_recently_is_left_alone(calls: list[list[bool]]) -> None:
    events, view = manager(mode="reset", min_steps_between_resets=3)
    for rows in ((1, 1), (1, 0), (0, 0), (1, 1), (1, 1)):
        events.reset(mask(*rows))
        view.step_count += 1

    assert calls == [[True, True], [True, True]]


def test_the_timers_numbers_do_not_depend_on_which_other_rows_reset(calls: list[list[bool]]) -> None:
    """FR-08."""
    timers = []
    for rows in (mask(0, 1), mask(1, 1)):
        events, view = manager(mode="interval", interval_s=(1.0, 2.0))
        run(events, view, 2)
        events.reset(rows)
        timers.append(events.state_dict()["mark/timer/time_left"])

    assert timers[0][1] == timers[1][1]
    assert timers[0][0] != timers[1][0]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"mode": "later"}, "events.mark.mode: unknown mode 'later'"),
        ({"mode": "interval"}, "events.mark has mode interval: give interval_s"),
        ({"mode": "interval", "interval_s": (2.0, 1.0)}, "interval_s is .*low is above high"),
        ({"mode": "interval", "interval_s": (-1.0, 1.0)}, r"interval_s is -1.0, outside \[0.0"),
        ({"mode": "reset", "interval_s": (1.0, 2.0)}, "interval_s and is_global_time are for mode interval, not reset"),
        ({"mode": "step", "is_global_time": True}, "are for mode interval, not step"),
        ({"mode": "reset", "min_steps_between_resets": -1}, "a count of at least 0, for mode reset"),
        ({"mode": "startup", "min_steps_between_resets": 5}, "a count of at least 0, for mode reset"),
    ],
)
def test_impossible_or_unused_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    """FR-44, FR-48."""
    with pytest.raises(ConfigurationError, match=match):
        manager(**settings)


def test_a_mode_that_the_term_does_not_support_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="events.x cannot run in mode step: use reset"):
        EventManager({"x": EventTermCfg(func=OnlyReset, mode="step")}, make_view())


def test_a_host_skips_an_interval_that_is_not_due_and_a_device_does_not() -> None:
    counts: list[int] = []

    class Count(Mark):
        def __call__(self, rows: Tensor) -> None:
            counts[-1] += 1

    for device_like in (False, True):
        counts.append(0)
        view = make_view(backend=FakeBackend(2, device_like=device_like))
        events = EventManager({"c": EventTermCfg(func=Count, mode="interval", interval_s=(0.1, 0.1))}, view)
        draw_block(view)
        events.startup(ALL_ROWS)
        run(events, view, 10)

    assert counts == [2, 10]
