"""What an environment has logged, as plain numbers."""

from application.env_report import report_of
from domain.managers.curriculum import CurriculumTermCfg
from domain.mdp.curricula import StagedParameter
from tests.support.small_env import LIMIT, make_env, nan_at, reward, step


def test_a_report_has_episodes_and_curricula_and_no_faults_where_nothing_broke() -> None:
    stages = {"target": "rewards.broken.weight", "stages": ((0, 2.0),)}
    env = make_env(
        episode_length_s=0.06,
        terminations=LIMIT,
        rewards={"broken": reward(nan_at, row=0, step=99)},
        curricula={"harder": CurriculumTermCfg(func=StagedParameter, params=stages)},
    )
    step(env, 3)

    report = report_of(env)

    assert report.metrics["episode/length"] == 3.0
    assert report.metrics["episode/count"] == 2.0
    assert report.metrics["curriculum/harder"] == 1.0
    assert report.faults == {}


def test_without_a_finished_episode_there_is_no_mean() -> None:
    env = make_env(terminations=LIMIT)
    step(env)

    assert report_of(env).metrics == {"episode/count": 0.0}


def test_a_fault_comes_with_count_env_and_step_once() -> None:
    env = make_env(rewards={"broken": reward(nan_at, row=1, step=2)})
    step(env, 2)

    assert report_of(env).faults == {"reward/broken": (1, 1, 2)}
    assert report_of(env).faults == {}
