from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from application.evaluate import evaluate, random_policy, zero_policy
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.errors import ConfigurationError
from domain.managers.metrics import MetricsTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.view import EnvView

CPU = torch.device("cpu")


def alive(env: EnvView) -> Tensor:
    return torch.ones(env.num_envs)


def breaks_env_1_in_its_fourth_step(env: EnvView) -> Tensor:
    return torch.where((env.step_count == 4) & torch.tensor([False, True]), torch.nan, 1.0)


def age(env: EnvView) -> Tensor:
    return env.episode_length.float()


def early(env: EnvView) -> Tensor:
    """Ends episodes of env 0 after 2 steps, of env 1 after 5."""
    return env.episode_length >= torch.tensor([2, 5])


def late(env: EnvView) -> Tensor:
    return env.episode_length >= 99


def make_env(
    *, stagger: bool = False, scaled: bool = True, alive: Callable[[EnvView], Tensor] = alive
) -> ManagerBasedRlEnv:
    task = TASKS["cartpole_balance"].build("ppo")
    cfg: EnvCfg = replace(
        task.env,
        stagger_episodes=stagger,
        scale_rewards_by_dt=scaled,
        rewards={"alive": RewardTermCfg(func=alive, weight=2.0), "age": RewardTermCfg(func=age, weight=-1.0)},
        terminations={"early": TerminationTermCfg(func=early), "late": TerminationTermCfg(func=late, time_out=True)},
        metrics={"oldest": MetricsTermCfg(func=age, reduce="max")},
    )
    return ManagerBasedRlEnv(cfg, MujocoBackend(task.make_scene(), 2), seed=1)


@pytest.fixture
def env() -> Iterator[ManagerBasedRlEnv]:
    env = make_env()
    yield env
    env.close()


def test_each_env_plays_its_share_so_short_episodes_do_not_push_long_ones_out(env: ManagerBasedRlEnv) -> None:
    evaluation = evaluate(env, zero_policy(1), episodes=4)

    assert evaluation.episodes == 4
    assert evaluation.mean_length == (2 + 2 + 5 + 5) / 4


def test_an_odd_number_of_episodes_is_met_exactly(env: ManagerBasedRlEnv) -> None:
    assert evaluate(env, zero_policy(1), episodes=3).mean_length == (2 + 2 + 5) / 3


def test_fewer_episodes_than_envs_count_the_first_envs(env: ManagerBasedRlEnv) -> None:
    assert evaluate(env, zero_policy(1), episodes=1).mean_length == 2.0


def test_returns_are_sums_of_step_rewards_with_and_without_the_control_step(env: ManagerBasedRlEnv) -> None:
    evaluation = evaluate(env, zero_policy(1), episodes=4)

    # Two steps: 2 * 2 - (1 + 2) = 1; five steps: 5 * 2 - 15 = -5.
    assert evaluation.mean_unscaled_return == pytest.approx(-2.0)
    assert evaluation.std_unscaled_return == pytest.approx(3.0)
    assert evaluation.mean_return == pytest.approx(-2.0 * 0.05)
    assert evaluation.std_return == pytest.approx(3.0 * 0.05)


def test_unscaled_rewards_give_one_return() -> None:
    evaluation = evaluate(make_env(scaled=False), zero_policy(1), episodes=4)

    assert evaluation.mean_return == evaluation.mean_unscaled_return == pytest.approx(-2.0)


def test_reward_terms_are_means_over_steps_without_the_control_step(env: ManagerBasedRlEnv) -> None:
    rewards = evaluate(env, zero_policy(1), episodes=4).rewards

    assert rewards == {"alive": pytest.approx(2.0), "age": pytest.approx(-(3 + 3 + 15 + 15) / 14)}


def test_terminations_are_shares_of_episodes(env: ManagerBasedRlEnv) -> None:
    evaluation = evaluate(env, zero_policy(1), episodes=4)

    assert evaluation.terminations == {"early": 1.0, "late": 0.0}
    assert evaluation.invalid == 0.0


def test_metrics_are_means_over_the_counted_episodes(env: ManagerBasedRlEnv) -> None:
    # Env 0 plays on while env 1 ends its second episode; what it ends then does not count.
    assert evaluate(env, zero_policy(1), episodes=4).metrics == {"oldest": pytest.approx((2 + 2 + 5 + 5) / 4)}
    assert evaluate(env, zero_policy(1), episodes=3).metrics == {"oldest": pytest.approx((2 + 2 + 5) / 3)}


def test_metrics_leave_broken_episodes_out() -> None:
    env = make_env(alive=breaks_env_1_in_its_fourth_step)

    found = evaluate(env, zero_policy(1), episodes=4)

    # Env 0 ends after 2 and 2 steps, env 1 breaks after 4 and ends its next episode after 5.
    assert found.invalid == 0.25
    assert found.metrics == {"oldest": pytest.approx((2 + 2 + 5) / 3)}


def test_the_first_episode_of_env_0_is_recorded_from_its_reset(env: ManagerBasedRlEnv) -> None:
    qpos = evaluate(env, zero_policy(1), episodes=4, record_env0=True).qpos

    assert qpos is not None
    assert qpos.shape == (2, 2)
    assert float((qpos[0] - qpos[1]).abs().max()) > 0.0


def test_nothing_is_recorded_unasked(env: ManagerBasedRlEnv) -> None:
    assert evaluate(env, zero_policy(1), episodes=1).qpos is None


def test_no_episode_is_refused(env: ManagerBasedRlEnv) -> None:
    with pytest.raises(ConfigurationError, match="episodes is 0: evaluate at least 1"):
        evaluate(env, zero_policy(1), episodes=0)


def test_staggered_first_episodes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="env.stagger_episodes is on"):
        evaluate(make_env(stagger=True), zero_policy(1), episodes=2)


def test_random_actions_fill_the_unit_box_and_repeat_with_their_seed() -> None:
    observations = {"actor": torch.zeros(2000, 3)}

    actions = random_policy(2, 5, CPU)(observations)

    assert actions.shape == (2000, 2)
    assert -1.0 <= float(actions.min()) < -0.99
    assert 0.99 < float(actions.max()) < 1.0
    assert torch.equal(random_policy(2, 5, CPU)(observations), actions)
    assert not torch.equal(random_policy(2, 6, CPU)(observations), actions)


def test_zero_actions_are_zero() -> None:
    assert torch.equal(zero_policy(2)({"actor": torch.ones(3, 4)}), torch.zeros(3, 2))
