"""What a step does before what."""

import pytest
import torch
from torch import Tensor

from domain.locomotion.gait import GaitClock
from domain.managers.command import CommandTerm, CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.observation import ObservationGroupCfg
from domain.managers.state import set_rows
from domain.mdp import observations, resets
from domain.rng import Draw
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import (
    AGE,
    LIMIT,
    ends,
    episode_age,
    fails_at,
    global_step,
    make_env,
    mask,
    observation,
    reward,
    step,
)

GAIT = CommandTermCfg(func=GaitClock, params={"frequency": 1.0, "offsets": (0.0,)}, resampling_time_s=(10.0, 10.0))


def phase(env: EnvView) -> Tensor:
    return env.command("gait")[:, 0].clone()


def failed(env: EnvView) -> Tensor:
    return env.terminated.float()


def counted(env: EnvView) -> Tensor:
    return env.command("count")[:, 0].clone()


class Count(CommandTerm):
    """Counts its draws; its metric sums the value of every step."""

    def __init__(self, env: EnvView) -> None:
        super().__init__(env, 1)
        self.total = self.metric("value")

    def resample(self, rows: Tensor, draw: Draw) -> None:
        set_rows(self.value, rows, self.value + 1.0)

    def measure(self) -> None:
        self.total += self.value[:, 0]


def test_clocks_move_before_the_rewards() -> None:
    env = make_env(commands={"gait": GAIT}, rewards={"phase": reward(phase)}, scale_rewards_by_dt=False)

    torch.testing.assert_close(step(env).reward, torch.full((2,), 0.02))
    torch.testing.assert_close(step(env).reward, torch.full((2,), 0.04))


def test_rewards_see_the_terminations_of_the_same_step() -> None:
    env = make_env(
        terminations={"fall": ends(fails_at, row=1, step=2)},
        rewards={"failed": reward(failed)},
        scale_rewards_by_dt=False,
    )

    assert step(env, 2).reward.tolist() == [0.0, 1.0]
    assert step(env).reward.tolist() == [0.0, 0.0]


def test_a_step_is_rewarded_and_measured_under_the_command_it_was_flown_with() -> None:
    count = CommandTermCfg(func=Count, resampling_time_s=(0.02, 0.02))
    env = make_env(
        commands={"count": count},
        rewards={"count": reward(counted)},
        observations={
            "actor": ObservationGroupCfg(
                terms={"c": observation(observations.generated_command, params={"command": "count"})}
            )
        },
        scale_rewards_by_dt=False,
    )
    first = step(env)
    assert first.reward.tolist() == [1.0, 1.0]  # drawn once, at the reset
    assert first.observations["actor"].tolist() == [[2.0], [2.0]]  # redrawn, for the next action
    assert env.commands.metrics()["count/value"].tolist() == [1.0, 1.0]

    assert step(env).reward.tolist() == [2.0, 2.0]


def test_a_done_row_is_not_redrawn_before_its_final_observation() -> None:
    count = CommandTermCfg(func=Count, resampling_time_s=(0.02, 0.02))
    shown = ObservationGroupCfg(terms={"c": observation(observations.generated_command, params={"command": "count"})})
    env = make_env(
        commands={"count": count},
        observations={"actor": shown},
        terminations={"fall": ends(fails_at, row=0, step=1)},
    )
    result = step(env)

    assert result.final_observations["actor"].tolist() == [[1.0], [2.0]]
    assert result.observations["actor"].tolist() == [[2.0], [2.0]]  # row 0 by its reset


@pytest.mark.parametrize("device_like", [False, True])
def test_histories_of_done_rows_end_with_the_final_frame_and_start_anew(device_like: bool) -> None:
    group = ObservationGroupCfg(terms={"age": observation(episode_age, history_length=3)})
    env = make_env(
        backend=FakeBackend(2, device_like=device_like),
        observations={"actor": group},
        terminations={"fall": ends(fails_at, row=0, step=4)},
    )
    result = step(env, 4)

    assert result.final_observations["actor"].tolist() == [[2.0, 3.0, 4.0]] * 2
    assert result.observations["actor"].tolist() == [[0.0, 0.0, 0.0], [2.0, 3.0, 4.0]]


@pytest.mark.parametrize("device_like", [False, True])
def test_histories_of_live_rows_advance_once_a_step_whoever_resets(device_like: bool) -> None:
    """FR-08."""
    group = ObservationGroupCfg(terms={"step": observation(global_step, history_length=3)})
    env = make_env(backend=FakeBackend(2, device_like=device_like), observations={"actor": group})
    for number in range(1, 8):
        env.reset(mask(1, 0))
        result = step(env)
        frames = [max(float(number - lag), 0.0) for lag in (2, 1, 0)]
        assert result.observations["actor"][1].tolist() == frames


@pytest.mark.parametrize("device_like", [False, True])
def test_observations_after_a_push_show_the_pushed_state_and_final_ones_the_true_successor(device_like: bool) -> None:
    push = EventTermCfg(
        func=resets.PushRoot,
        mode="interval",
        interval_s=(0.04, 0.04),
        params={"velocity": {"x": (1.0, 1.0)}},
    )
    shown = ObservationGroupCfg(terms={"v": observation(observations.base_lin_vel, history_length=2)})
    env = make_env(
        backend=FakeBackend(2, device_like=device_like), events={"push": push}, observations={"actor": shown}
    )
    first, second = step(env), step(env)

    moved = second.observations["actor"][0, 3] - second.final_observations["actor"][0, 3]
    torch.testing.assert_close(moved, torch.tensor(1.0))
    torch.testing.assert_close(second.observations["actor"][0, :3], first.observations["actor"][0, 3:])


def test_events_leave_rows_alone_that_are_done_or_broken() -> None:
    seen: list[list[bool]] = []

    def watch(env: EnvView, rows: Tensor) -> None:
        seen.append(rows.tolist())

    backend = FakeBackend(3)
    backend.break_row(2, 2)
    env = make_env(
        backend=backend,
        events={"watch": EventTermCfg(func=watch, mode="step")},
        terminations={"fall": ends(fails_at, row=0, step=2)},
    )
    step(env, 3)

    assert seen == [[True, True, True], [False, True, False], [True, True, True]]


def test_time_outs_end_after_exactly_the_limit() -> None:
    env = make_env(terminations=LIMIT, episode_length_s=0.06, observations=AGE)
    ended = [bool(step(env).truncated[0]) for _ in range(7)]

    assert ended == [False, False, True, False, False, True, False]
