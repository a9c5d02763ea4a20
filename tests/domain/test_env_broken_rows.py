"""One row that turns non-finite ends alone, is counted, and leaves no trace in the others or the statistics."""

import pytest
import torch

from domain.env import ManagerBasedRlEnv, StepResult
from domain.managers.action import ActionTermCfg
from domain.managers.command import CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.metrics import MetricsTermCfg
from domain.managers.observation import ObservationGroupCfg
from domain.mdp import actions, commands, observations, resets
from tests.support.fake_backend import Break, FakeBackend
from tests.support.full_task import ALL, drive, full_env
from tests.support.small_env import (
    AGE,
    LIMIT,
    age,
    make_env,
    nan_at,
    nan_column_at,
    observation,
    one,
    reward,
    step,
)

ROW, AT = 1, 5
LAST = 12


def build(source: str, *, device_like: bool = False) -> ManagerBasedRlEnv:
    """Build an environment in which ``source`` breaks row 1 in step 5."""
    backend = FakeBackend(3, device_like=device_like)
    if source in ("nan", "reset"):
        backend.break_row(ROW, AT, "nan" if source == "nan" else "reset")
    at = {"row": ROW, "step": AT if source == "reward" else -1}
    seen = {"row": ROW, "step": AT if source == "observation" else -1}
    watched = {"row": ROW, "step": AT if source == "metric" else -1}
    twist = {
        "lin_vel_x": (-1.0, 1.0),
        "lin_vel_y": (0.0, 0.0),
        "ang_vel_z": (0.0, 0.0),
        "standing_share": 0.0,
        "lin_vel_sensor": "linvel",
    }
    pose = {"pose": {"x": (-1.0, 1.0)}, "velocity": {"x": (-1.0, 1.0)}}
    return make_env(
        backend=backend,
        scale_rewards_by_dt=False,
        actions={"effort": ActionTermCfg(func=actions.JointEffortAction, params={"joints": ALL, "scale": 1.0})},
        commands={
            "twist": CommandTermCfg(func=commands.UniformVelocityCommand, params=twist, resampling_time_s=(0.06, 0.06))
        },
        observations={
            "actor": ObservationGroupCfg(
                terms={
                    "age": observation(nan_column_at, params=seen, history_length=2),
                    "vel": observation(observations.base_lin_vel),
                }
            ),
            "critic": AGE["actor"],
        },
        rewards={"one": reward(one, 2.0), "odd": reward(nan_at, 1.0, **at)},
        metrics={"odd": MetricsTermCfg(func=nan_at, params=watched), "age": MetricsTermCfg(func=age, reduce="max")},
        terminations=LIMIT,
        episode_length_s=0.2,
        events={"root": EventTermCfg(func=resets.ResetRootUniform, mode="reset", params=pose)},
    )


def play(env: ManagerBasedRlEnv) -> list[StepResult]:
    return [step(env, action=0.3) for _ in range(LAST)]


BREAKS = ["nan", "reset", "reward", "observation"]


@pytest.mark.parametrize("source", BREAKS)
@pytest.mark.parametrize("device_like", [False, True])
def test_the_row_ends_terminated_with_reward_0_and_its_last_finite_observation(source: str, device_like: bool) -> None:
    """FR-50."""
    env = build(source, device_like=device_like)
    results = play(env)
    before, broken = results[AT - 2], results[AT - 1]

    assert broken.terminated.tolist() == [False, True, False]
    assert not broken.truncated.any()
    assert broken.valid.tolist() == [True, False, True]
    assert broken.reward.tolist() == [3.0, 0.0, 3.0]
    for group in ("actor", "critic"):
        assert torch.equal(broken.final_observations[group][ROW], before.observations[group][ROW])
    assert broken.observations["critic"][:, 0].tolist() == [5.0, 0.0, 5.0]
    assert all(result.valid.all() for result in results if result is not broken)


@pytest.mark.parametrize("source", BREAKS)
def test_the_other_rows_are_bit_equal_to_a_run_without_it(source: str) -> None:
    """FR-50."""
    others = torch.tensor([True, False, True])
    for broken, clean in zip(play(build(source)), play(build("nothing")), strict=True):
        assert torch.equal(broken.reward[others], clean.reward[others])
        assert torch.equal(broken.truncated[others], clean.truncated[others])
        for group in ("actor", "critic"):
            assert torch.equal(broken.observations[group][others], clean.observations[group][others])
            assert torch.equal(broken.final_observations[group][others], clean.final_observations[group][others])


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("nan", {"physics", "observation/actor"}),
        ("reset", {"physics"}),
        ("reward", {"reward/odd"}),
        ("observation", {"observation/actor"}),
        ("metric", {"metric/odd"}),
    ],
)
def test_the_report_names_source_row_and_step(source: str, names: set[str]) -> None:
    """FR-50."""
    env = build(source)
    play(env)
    report = env.drain_faults()

    found = {name: i for i, name in enumerate(report.sources) if report.counts[i]}
    assert set(found) == names
    for i in found.values():
        assert [int(values[i]) for values in (report.counts, report.rows, report.steps)] == [1, ROW, AT]
    assert env.drain_faults().counts.sum() == 0


@pytest.mark.parametrize("source", BREAKS)
def test_statistics_skip_the_broken_episode(source: str) -> None:
    env = build(source)
    play(env)
    summary = env.drain_episodes()
    values = dict(zip(summary.names, summary.values.tolist(), strict=True))

    # Rows 0 and 2 time out after 10 steps; row 1 broke in step 5.
    assert values["episode/count"] == 2.0
    assert values["episode/length"] == 10.0
    assert values["episode/return"] == 30.0
    assert values["reward/one"] == 2.0
    assert values["metric/age"] == 10.0
    assert torch.isfinite(summary.values).all()


def test_a_metric_that_is_nan_once_is_counted_but_ends_nothing() -> None:
    env = build("metric")
    results = play(env)
    summary = env.drain_episodes()

    assert results[AT - 1].valid.all()
    assert dict(zip(summary.names, summary.values.tolist(), strict=True))["metric/odd"] == 1.0


def test_a_row_that_breaks_at_its_time_limit_is_terminated_only() -> None:
    backend = FakeBackend(2)
    backend.break_row(0, 3)
    env = make_env(backend=backend, terminations=LIMIT, episode_length_s=0.06)
    result = step(env, 3)

    assert (result.terminated.tolist(), result.truncated.tolist()) == ([True, False], [False, True])


def test_without_termination_terms_a_broken_row_ends_once() -> None:
    backend = FakeBackend(2)
    backend.break_row(0, 2)
    env = make_env(backend=backend)
    ended = [step(env).terminated.tolist() for _ in range(4)]

    assert ended == [[False, False], [True, False], [False, False], [False, False]]


def test_weighted_rewards_of_a_broken_row_are_zero() -> None:
    env = build("reward")
    step(env, AT)

    assert env.rewards.weighted.tolist() == [[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]]


def test_a_stray_write_is_counted() -> None:
    env = full_env()
    writes = env.view.writes
    writes.begin_step()
    rows = torch.zeros(6, dtype=torch.bool)
    with writes.transaction(rows, "push"):
        writes.write_root_velocity(env.view.entity("robot"), torch.zeros(6, 6), ~rows)
    drive(env, 1)
    report = env.drain_faults()

    assert report.counts[report.sources.index("stray write")] == 6


@pytest.mark.parametrize("how", ["nan", "reset"])
def test_a_broken_row_recovers_everywhere(how: Break) -> None:
    """FR-50: no NaN stays in histories, delays, metrics, command errors or accelerations."""
    env = full_env()
    backend = env.view.backend
    assert isinstance(backend, FakeBackend)
    backend.break_row(2, 5, how)
    drive(env, 10)

    dirty = [name for name, value in env.state_dict().items() if value.double().isnan().any()]
    assert dirty == []
