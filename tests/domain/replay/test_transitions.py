"""One env step as rows of a chunk: what was seen, done and came of it."""

from collections.abc import Mapping

import pytest
import torch

from domain.env import ManagerBasedRlEnv, StepResult
from domain.learning.categorical import Support
from domain.managers.action import ActionTermCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions
from domain.replay.batch import TransitionBatch
from domain.replay.gather import BatchGather
from domain.replay.layout import Columns, RowLayout
from domain.replay.ring import ReplayRing
from domain.replay.slots import SlotPlan
from domain.replay.transitions import write_observation, write_transitions
from domain.view import EnvView
from tests.support.full_task import ALL
from tests.support.small_env import LIMIT, ends, episode_age, global_step, make_env, nan_at, reward

CPU = torch.device("cpu")
ENVS = 2
OF_7_STEPS = 0.14
ASYMMETRIC = SlotPlan(layout=RowLayout(obs=1, action=3, critic=2), num_envs=ENVS)
SHARED = SlotPlan(layout=RowLayout(obs=1, action=3), num_envs=ENVS)


def group(*terms: ObservationTermCfg) -> ObservationGroupCfg:
    return ObservationGroupCfg(terms={str(place): term for place, term in enumerate(terms)})


def at_age_3(env: EnvView) -> torch.Tensor:
    """Fail at an age."""
    return env.episode_length == 3


def counting_env(
    break_at: int = 0, seconds: float = OF_7_STEPS, terminations: Mapping[str, TerminationTermCfg] = LIMIT
) -> ManagerBasedRlEnv:
    """Observe the episode's age, for the critic behind the global step; time out after 7 steps, or as told."""
    age, count = ObservationTermCfg(func=episode_age), ObservationTermCfg(func=global_step)
    return make_env(
        ENVS,
        episode_length_s=seconds,
        actions={"effort": ActionTermCfg(func=actions.JointEffortAction, params={"joints": ALL, "scale": 1.0})},
        observations={"actor": group(age), "critic": group(count, age)},
        terminations=terminations,
        rewards={"broken": reward(nan_at, row=1, step=break_at)},
        scale_rewards_by_dt=False,
    )


def write_steps(env: ManagerBasedRlEnv, plan: SlotPlan, steps: int) -> tuple[Columns, torch.Tensor, StepResult]:
    """Step and write with one dirty block, and return the columns and flags of the last step."""
    block = torch.full((plan.sizes["chunk0"],), 99.0)
    observations = dict(env.observations.current)
    for number in range(steps):
        observations = {name: value.clone() for name, value in observations.items()}
        action = torch.full((ENVS, 3), 0.01 * number)
        result = env.step(action)
        write_transitions(plan, block, observations, action, result)
        observations = result.observations
    rows, valid = plan.chunk(block)
    return plan.layout.columns(rows), valid, result


def test_the_stored_successor_of_an_episodes_last_row_is_7_not_0_for_both_groups() -> None:
    columns, valid, result = write_steps(counting_env(), ASYMMETRIC, 7)

    assert columns.obs.tolist() == [[6.0], [6.0]]
    assert columns.next_obs.tolist() == [[7.0], [7.0]]
    assert columns.critic_obs.tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert columns.next_critic_obs.tolist() == [[7.0, 7.0], [7.0, 7.0]]
    assert columns.truncated.tolist() == [1.0, 1.0]
    assert columns.terminated.tolist() == [0.0, 0.0]
    assert valid.tolist() == [1.0, 1.0]
    assert result.observations["actor"].tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("ending", "value", "target"),
    [(LIMIT, 5.0, 1.0 + 0.9 * 5.0), ({"fall": ends(at_age_3)}, 5.0, 1.0), (LIMIT, None, 1.0 + 0.9 * 3.0)],
    ids=["time-out", "failure", "critic that reads its input"],
)
def test_the_target_at_a_time_out_is_the_value_after_the_step_and_at_a_failure_none(
    ending: Mapping[str, TerminationTermCfg], value: float | None, target: float
) -> None:
    """FR-19: reward 1, discount 0.9, an end at step 3, where the observation is 3, and a critic that says ``value``."""
    env = counting_env(seconds=0.06 if ending is LIMIT else 2.0, terminations=ending)
    block, ring = torch.zeros(SHARED.sizes["chunk0"]), ReplayRing(SHARED.layout, ENVS, 8, CPU)
    observations = dict(env.observations.current)
    for _ in range(4):
        observations = {name: seen.clone() for name, seen in observations.items()}
        action = torch.zeros(ENVS, 3)
        result = env.step(action)
        write_transitions(SHARED, block, observations, action, result)
        ring.add(*SHARED.chunk(block))
        observations = result.observations
    batch = TransitionBatch(SHARED.layout, 1, ENVS, CPU)
    gather = BatchGather(ring=ring.rows, layout=SHARED.layout, stride=ENVS, gamma=0.9, n_step=1)
    gather.fill(torch.tensor([4, 5]), ring.committed, batch)

    successor = batch.columns.next_critic_obs[0, :, 0]
    critic = successor if value is None else torch.full((ENVS,), value)
    said = torch.zeros(ENVS, 11)
    said[torch.arange(ENVS), critic.long()] = 1.0
    support = Support(0.0, 10.0, 11, CPU)
    learnt = support.mean(support.project(said, batch.reward[0], batch.discount[0]))

    assert successor.tolist() == [3.0, 3.0]
    torch.testing.assert_close(learnt, torch.full((ENVS,), target))


def test_the_next_row_begins_with_the_first_observation_of_the_new_episode() -> None:
    columns, _, _ = write_steps(counting_env(), ASYMMETRIC, 8)

    assert columns.obs.tolist() == [[0.0], [0.0]]
    assert columns.next_obs.tolist() == [[1.0], [1.0]]
    assert columns.truncated.tolist() == [0.0, 0.0]


def test_action_and_reward_are_those_of_the_step() -> None:
    columns, _, _ = write_steps(counting_env(), ASYMMETRIC, 3)

    torch.testing.assert_close(columns.action, torch.full((2, 3), 0.02))
    assert columns.reward.tolist() == [1.0, 1.0]


def test_without_columns_of_its_own_the_critic_sees_obs() -> None:
    columns, _, _ = write_steps(counting_env(), SHARED, 7)

    assert columns.critic_obs.tolist() == columns.obs.tolist() == [[6.0], [6.0]]
    assert columns.next_critic_obs.tolist() == columns.next_obs.tolist() == [[7.0], [7.0]]


def test_a_broken_row_is_marked_and_holds_only_finite_numbers() -> None:
    columns, valid, _ = write_steps(counting_env(break_at=3), ASYMMETRIC, 3)

    assert valid.tolist() == [1.0, 0.0]
    assert columns.terminated.tolist() == [0.0, 1.0]
    assert columns.reward.tolist() == [1.0, 0.0]
    assert torch.isfinite(columns.next_critic_obs).all()


@pytest.mark.parametrize(
    ("began", "flags"), [(None, [1.0, 1.0]), (torch.tensor([False, True]), [0.0, 1.0])], ids=["all", "some"]
)
def test_an_observation_says_where_an_episode_begins(began: torch.Tensor | None, flags: list[float]) -> None:
    block = torch.full((SHARED.sizes["observation"],), 99.0)

    write_observation(SHARED, block, {"actor": torch.tensor([[3.0], [4.0]])}, began)

    rows, written = SHARED.observation(block)
    assert rows.tolist() == [[3.0], [4.0]]
    assert written.tolist() == flags


def test_the_successor_of_a_pushed_row_is_what_the_policy_sees_next() -> None:
    seen, unpushed = torch.tensor([[5.0], [6.0]]), torch.tensor([[1.0], [2.0]])
    result = StepResult(
        observations={"actor": seen, "critic": seen},
        reward=torch.zeros(ENVS),
        terminated=torch.tensor([False, True]),
        truncated=torch.tensor([False, False]),
        final_observations={"actor": unpushed, "critic": unpushed},
        valid=torch.ones(ENVS, dtype=torch.bool),
    )
    block = torch.zeros(SHARED.sizes["chunk0"])
    write_transitions(SHARED, block, {"actor": unpushed}, torch.zeros(ENVS, 3), result)
    columns = SHARED.layout.columns(SHARED.chunk(block)[0])
    assert columns.next_obs.tolist() == [[5.0], [2.0]]
