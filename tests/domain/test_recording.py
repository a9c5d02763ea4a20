"""Which term is named for an error; what waits for a GPU is tested with marker ``cuda`` in tests/adapters/mjwarp."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.errors import CapabilityError
from domain.managers.observation import ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.mdp import observations
from domain.recording import culprit
from domain.view import EnvView
from tests.support.tasks import make_env

NAME = "cartpole_balance"


def breaks(env: EnvView) -> Tensor:
    if int(env.step_count) > 0:
        observations.sensor(env, sensor="none of these")
    return torch.zeros(env.num_envs)


def picky(env: EnvView, *, word: str) -> Tensor:
    if int(env.step_count) > 0 and word == "second":
        raise ValueError(word)
    return torch.zeros(env.num_envs)


class Breaks:
    def __init__(self, env: EnvView) -> None:
        self._env = env

    def __call__(self) -> Tensor:
        return breaks(self._env).unsqueeze(1)


def env_with(table: str) -> ManagerBasedRlEnv:
    cfg = TASKS[NAME].build("ppo").env
    if table == "rewards":
        return make_env(
            NAME, 2, cfg=replace(cfg, rewards={**cfg.rewards, "bad": RewardTermCfg(func=breaks, weight=1.0)})
        )
    actor = cfg.observations["actor"]
    actor = replace(actor, terms={**actor.terms, "bad": ObservationTermCfg(func=Breaks)})
    return make_env(NAME, 2, cfg=replace(cfg, observations={**cfg.observations, "actor": actor}))


@pytest.mark.parametrize(("table", "path"), [("rewards", "rewards.bad"), ("observations", "observations.actor.bad")])
def test_the_term_in_whose_code_an_error_arose_is_named(table: str, path: str) -> None:
    env = env_with(table)
    env.reset()

    with pytest.raises(Exception, match="none of these") as caught:
        env.step(torch.zeros(2, 1))

    assert culprit(caught.value, env) == path
    env.close()


def test_of_terms_that_share_a_function_the_right_one_is_named() -> None:
    cfg = TASKS[NAME].build("ppo").env
    both = {name: RewardTermCfg(func=picky, weight=1.0, params={"word": name}) for name in ("first", "second")}
    env = make_env(NAME, 2, cfg=replace(cfg, rewards=both))
    env.reset()

    with pytest.raises(ValueError, match="second") as caught:
        env.step(torch.zeros(2, 1))

    assert culprit(caught.value, env) == "rewards.second"
    env.close()


def test_an_error_of_nobody_s_has_no_culprit() -> None:
    env = make_env(NAME, 2)

    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / (env.num_envs - 2)

    assert culprit(caught.value, env) is None
    env.close()


def test_a_host_s_steps_are_not_recorded() -> None:
    env = make_env(NAME, 2)

    with pytest.raises(CapabilityError, match="the environment is on cpu: only a CUDA device's"):
        env.record()

    env.close()
