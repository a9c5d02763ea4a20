"""A task's settings are those of one algorithm."""

from dataclasses import replace

import pytest

from application.settings import PpoSettings, RuntimeSettings
from application.tasks import cartpole
from application.tasks.cartpole import BALANCE
from application.tasks.off_policy_owners import OWNERS, owner_of
from application.tasks.task import Owner
from domain.errors import ConfigurationError
from domain.learning.config import SacCfg, Td3Cfg


def test_settings_come_as_those_of_the_algorithm() -> None:
    ppo, sac = BALANCE.build("ppo"), BALANCE.build("sac")

    assert ppo.learner_as(PpoSettings) is ppo.learner
    assert sac.learner_as(SacCfg) is sac.learner
    assert sac.off_policy == (sac.learner, RuntimeSettings())


def test_settings_of_another_algorithm_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'cartpole_balance' is resolved with SacCfg, not Td3Cfg"):
        BALANCE.build("sac").learner_as(Td3Cfg)
    with pytest.raises(ConfigurationError, match="for an algorithm that is not off-policy"):
        _ = BALANCE.build("ppo").off_policy


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_only_off_policy_learners_have_a_runtime_and_all_of_them(algo: str) -> None:
    task = BALANCE.build(algo)

    with pytest.raises(ConfigurationError, match="off-policy learners have RuntimeSettings, others none"):
        replace(task, runtime=RuntimeSettings() if task.runtime is None else None)


def test_an_owner_s_runtime_follows_its_learner() -> None:
    train = BALANCE.build("ppo").train

    assert Owner(train=train, learner=PpoSettings()).runtime is None
    assert Owner(train=train, learner=SacCfg()).runtime == RuntimeSettings()


def test_an_algorithm_that_a_task_names_without_values_for_it_is_an_error_that_says_where_they_go() -> None:
    with pytest.raises(ConfigurationError, match="task 'cartpole_mine' names algorithm 'sac' and has no values"):
        owner_of("cartpole_mine", "sac", cartpole.PPO)
    assert owner_of("cartpole_mine", "ppo", cartpole.PPO) is cartpole.PPO
    assert owner_of("go2_flat", "sac", cartpole.PPO) is OWNERS["go2_flat", "sac"]
