"""What PPO learns from the end of an episode, from a real environment to the library's storage."""

from collections.abc import Mapping

import pytest
import torch

from adapters.rsl_rl.ppo import RslRlPpo
from application.settings import PpoSettings
from domain.managers.termination import TerminationTermCfg
from tests.support.small_env import LIMIT, ends, fails_at, make_env, one, reward

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("ending", "target"), [(LIMIT, 1.0 + 0.9 * 5.0), ({"fall": ends(fails_at, row=0, step=3)}, 1.0)]
)
def test_a_chain_of_one_state_has_the_value_after_its_time_out_and_none_after_a_failure(
    ending: Mapping[str, TerminationTermCfg], target: float
) -> None:
    """FR-19: a real environment; reward 1, discount 0.9, limit 3, a critic that always says 5."""
    env = make_env(
        1,
        episode_length_s=0.06 if ending is LIMIT else 2.0,
        terminations=ending,
        rewards={"one": reward(one)},
        scale_rewards_by_dt=False,
    )
    settings = PpoSettings(rollout_steps=4, actor_hidden=(8,), critic_hidden=(1,), mini_batches=1, epochs=1, gamma=0.9)
    learner = RslRlPpo(settings, env.observations.current, 1, device=CPU, seed=1)
    for name, tensor in learner.algorithm.critic.state_dict().items():
        tensor.fill_(0.0 if name.endswith("weight") else 5.0)
    observations = dict(env.observations.current)

    for _ in range(4):
        learner.act(observations)
        result = env.step(torch.zeros(1, env.actions.dim))
        learner.record(result)
        observations = dict(result.observations)
    learner.update(observations)

    storage = learner.algorithm.storage
    assert storage.dones.flatten().tolist() == [0, 0, 1, 0]
    torch.testing.assert_close(storage.rewards.flatten(), torch.tensor([1.0, 1.0, target, 1.0]))
    # Nothing follows an episode's last step: its return is the target alone.
    torch.testing.assert_close(storage.returns[2, 0], torch.tensor([target]))
