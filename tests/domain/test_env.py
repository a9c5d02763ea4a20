"""Construction, resets and results of an environment."""

from typing import Any

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, SimulationError
from domain.managers.action import ActionTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.metrics import MetricsTermCfg
from domain.managers.observation import ObservationGroupCfg
from domain.mdp import actions, observations, resets
from domain.mdp.rewards import vertical_velocity_l2
from tests.support.fake_backend import DEFAULT_QPOS, FakeBackend
from tests.support.full_task import ALL
from tests.support.small_env import (
    AGE,
    LIMIT,
    age,
    ends,
    episode_age,
    fails_at,
    make_cfg,
    make_env,
    mask,
    observation,
    one,
    reward,
    step,
)

EFFORT = {"effort": ActionTermCfg(func=actions.JointEffortAction, params={"joints": ALL, "scale": 1.0})}


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"sim_dt": 0.0}, "env.sim_dt is 0.0"),
        ({"sim_dt": float("nan")}, "env.sim_dt is nan"),
        ({"episode_length_s": float("inf")}, "env.episode_length_s is inf"),
        ({"decimation": 0}, "env.decimation is 0"),
        ({"decimation": 2.5}, "env.decimation is 2.5"),
        ({"sim_dt": 0.005}, "the model's timestep is 0.01 s and env.sim_dt is 0.005 s: make them equal"),
    ],
)
def test_impossible_timing_is_refused_before_anything_steps(parts: dict[str, Any], match: str) -> None:
    """FR-60."""
    backend = FakeBackend(2)

    with pytest.raises(ConfigurationError, match=match):
        make_env(backend=backend, **parts)
    assert backend.steps == 0


def test_control_steps_of_an_episode_are_rounded_up() -> None:
    assert make_cfg(episode_length_s=0.05).max_episode_length == 3
    assert make_cfg(episode_length_s=0.06).max_episode_length == 3
    assert make_cfg(episode_length_s=1e-12).max_episode_length == 1


def test_a_missing_sensor_is_refused_by_name() -> None:
    """FR-58: no zeros as a stand-in."""
    group = ObservationGroupCfg(terms={"x": observation(observations.sensor, params={"sensor": "front_contact"})})

    with pytest.raises(ConfigurationError, match="rewards.lift: unknown sensor 'front_contact'"):
        make_env(rewards={"lift": reward(vertical_velocity_l2, sensor="front_contact")})
    with pytest.raises(ConfigurationError, match="observations.actor.terms.x: unknown sensor 'front_contact'"):
        make_env(observations={"actor": group})


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"reset\(\) comes before the first step\(\)"):
        step(make_env(started=False))


def test_the_first_reset_takes_all_rows() -> None:
    with pytest.raises(ConfigurationError, match="takes no mask"):
        make_env(started=False).reset(mask(1, 0))


@pytest.mark.parametrize(
    "rows", [torch.tensor([0, 1]), mask(1, 0, 1), torch.tensor([[True, False]]), [True, False], torch.ones(2)]
)
def test_rows_of_a_reset_are_a_bool_mask(rows: Any) -> None:
    with pytest.raises(ConfigurationError, match="a reset mask is"):
        make_env().reset(rows)


def test_a_refused_mask_leaves_the_random_stream_alone() -> None:
    env, other = make_env(actions=EFFORT), make_env(actions=EFFORT)
    with pytest.raises(ConfigurationError):
        env.reset(torch.zeros(5), seed=9)

    assert torch.equal(env.state_dict()["rng/generator"], other.state_dict()["rng/generator"])


@pytest.mark.parametrize("device_like", [False, True])
def test_an_empty_reset_draws_nothing_and_changes_nothing(device_like: bool) -> None:
    backend = FakeBackend(2, device_like=device_like)
    root = EventTermCfg(func=resets.ResetRootUniform, mode="reset", params={"pose": {"x": (0.0, 1.0)}, "velocity": {}})
    env = make_env(backend=backend, events={"root": root}, actions=EFFORT)
    step(env, 3)
    before, commits, reads = env.state_dict(), backend.commits, backend.reads

    returned = env.reset(mask(0, 0))

    after = env.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert (backend.commits, backend.reads) == (commits, reads)
    assert returned["actor"].tolist() == [[3.0], [3.0]]


def test_a_partial_reset_starts_its_rows_and_returns_all() -> None:
    env = make_env()
    step(env, 3)

    assert env.reset(mask(0, 1))["actor"].tolist() == [[3.0], [0.0]]
    assert step(env).observations["actor"].tolist() == [[4.0], [1.0]]


def test_a_reset_puts_the_simulation_to_its_default_state() -> None:
    env = make_env(actions=EFFORT)
    step(env, 5, action=1.0)
    assert env.view.state.qvel.any()

    env.reset()

    torch.testing.assert_close(env.view.state.qpos, torch.tensor([DEFAULT_QPOS] * 2))
    assert not env.view.state.qvel.any()


@pytest.mark.parametrize("group", ["actor", "critic"])
def test_the_final_observation_of_an_episode_is_the_last_one_not_the_first_of_the_next(group: str) -> None:
    """FR-20: the observation is the step counter, the limit is 7."""
    env = make_env(
        episode_length_s=0.14,
        terminations=LIMIT,
        observations={**AGE, "critic": ObservationGroupCfg(terms={"age": observation(episode_age)})},
    )
    result = step(env, 7)

    assert result.truncated.all()
    assert result.final_observations[group].tolist() == [[7.0], [7.0]]
    assert result.observations[group].tolist() == [[0.0], [0.0]]


def test_a_failure_is_terminated_and_a_time_limit_truncated() -> None:
    env = make_env(episode_length_s=0.06, terminations={**LIMIT, "fall": ends(fails_at, row=0, step=2)})
    second, third = step(env, 2), step(env)

    assert (second.terminated.tolist(), second.truncated.tolist()) == ([True, False], [False, False])
    assert (third.terminated.tolist(), third.truncated.tolist()) == ([False, False], [False, True])


def test_the_first_observation_after_a_reset_shows_the_new_state() -> None:
    """FR-34: for an automatic and an explicit reset, far from the last pose."""
    root = {"pose": {"x": (100.0, 200.0)}, "velocity": {}}
    foot = ObservationGroupCfg(terms={"left": observation(observations.sensor, params={"sensor": "left_pos"})})
    env = make_env(
        events={"root": EventTermCfg(func=resets.ResetRootUniform, mode="reset", params=root)},
        observations={"actor": foot},
        terminations={"fall": ends(fails_at, row=0, step=2)},
    )
    robot = env.view.entity("robot")
    for row in (0, 1):
        before = float(robot.root_pos[row, 0])
        shown = (step(env, 2).observations if row == 0 else env.reset(mask(0, 1)))["actor"][row, 0]
        # The fake robot's left foot is as far in front of the base as its hip is turned.
        torch.testing.assert_close(shown, robot.root_pos[row, 0] + robot.joint_pos[row, 0])
        assert shown - before != robot.joint_pos[row, 0]


def test_staggered_episodes_spread_the_first_time_outs() -> None:
    """FR-64."""
    ends_at: dict[bool, list[int]] = {}
    for stagger in (True, False):
        env = make_env(64, stagger_episodes=stagger, terminations=LIMIT, episode_length_s=1.0)
        ended = torch.stack([step(env).truncated for _ in range(50)])
        ends_at[stagger] = (ended.int().argmax(dim=0) + 1).tolist()
        assert ended.any(dim=0).all()

    assert len(set(ends_at[True])) > 20
    assert set(ends_at[False]) == {50}


@pytest.mark.parametrize("declared", [True, False])
def test_a_run_that_goes_on_with_fresh_episodes_staggers_them_again(declared: bool) -> None:
    env = make_env(64, stagger_episodes=declared, terminations=LIMIT, episode_length_s=1.0)
    step(env, 50)
    env.reset(stagger=True)
    ages = env.view.episode_length.clone()
    assert (len(set(ages.tolist())) > 20) == declared
    only_first = torch.arange(64) == 0
    env.reset(only_first, stagger=True)
    assert torch.equal(env.view.episode_length[1:], ages[1:])
    env.reset()
    assert (env.view.episode_length == 0).all()


def test_episode_means_by_hand() -> None:
    env = make_env(
        rewards={"one": reward(one, 3.0), "age": reward(age, 1.0)},
        terminations={**LIMIT, "fall": ends(fails_at, row=0, step=2)},
        metrics={"age": MetricsTermCfg(func=age, reduce="last")},
        episode_length_s=0.08,
    )
    step(env, 4)
    summary = env.drain_episodes()
    values = dict(zip(summary.names, summary.values.tolist(), strict=True))

    # Row 0 falls after 2 steps, row 1 times out after 4: ages 1 + 2 and 1 + 2 + 3 + 4.
    assert values["episode/count"] == 2.0
    assert values["episode/length"] == 3.0
    assert values["reward/one"] == pytest.approx(3.0)
    assert values["reward/age"] == pytest.approx(13.0 / 6.0)
    assert values["episode/return"] == pytest.approx(0.02 * (3.0 * 6.0 + 13.0) / 2.0)
    assert values["termination/fall"] == 0.5
    assert values["termination/time_out"] == 0.5
    assert values["metric/age"] == 3.0


def test_a_staggered_row_counts_the_steps_it_really_took() -> None:
    env = make_env(64, stagger_episodes=True, terminations=LIMIT, episode_length_s=1.0)
    step(env, 50)
    summary = env.drain_episodes()

    assert dict(zip(summary.names, summary.values.tolist(), strict=True))["episode/length"] < 35.0


def test_the_length_of_an_episode_starts_anew_with_it() -> None:
    env = make_env(terminations=LIMIT, episode_length_s=0.06)
    step(env, 6)
    summary = env.drain_episodes()
    values = dict(zip(summary.names, summary.values.tolist(), strict=True))

    assert (values["episode/count"], values["episode/length"]) == (4.0, 3.0)


def test_an_explicit_reset_is_not_logged_as_an_episode() -> None:
    env = make_env()
    step(env, 3)
    env.reset()

    assert env.drain_episodes().values[-1] == 0.0


def test_results_do_not_alias_the_environment() -> None:
    env = make_env(actions=EFFORT, rewards={"one": reward(one)}, terminations={"fall": ends(fails_at, row=0, step=2)})
    before = step(env)
    kept = [before.reward.clone(), before.terminated.clone(), before.observations["actor"].clone()]
    step(env)

    for value, expected in zip((before.reward, before.terminated, before.observations["actor"]), kept, strict=True):
        assert torch.equal(value, expected)
    before.observations["actor"].fill_(99.0)
    assert env.observations.current["actor"].max() < 99.0


def test_a_non_finite_action_stops_a_host_step() -> None:
    env = make_env(actions=EFFORT)

    with pytest.raises(SimulationError, match="control is not finite"):
        step(env, action=float("nan"))


def test_closing_closes_the_backend() -> None:
    backend = FakeBackend(2)
    make_env(backend=backend).close()

    assert backend.is_closed


def test_no_managers_but_observations_are_needed() -> None:
    env = ManagerBasedRlEnv(make_cfg(), FakeBackend(3), seed=0)
    env.reset()
    result = env.step(torch.zeros(3, 0))

    assert result.reward.tolist() == [0.0, 0.0, 0.0]
    assert not (result.terminated | result.truncated).any()
    assert result.valid.all()
