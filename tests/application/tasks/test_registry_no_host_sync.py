"""Every declared task steps and resets without handing data to the host, as a captured step must."""

import pytest
import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from tests.support.host_sync import ForbidHostSync
from tests.support.tasks import clips_for, make_env


class NeverSkips(MujocoBackend):
    """The engine with a device backend's answer: masked work always runs."""

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        return may_wait and super().skips(mask)


def _device_like(task: str, num_envs: int) -> ManagerBasedRlEnv:
    declared = TASKS[task].build("ppo")
    scene = declared.make_scene()
    return ManagerBasedRlEnv(declared.env, NeverSkips(scene, num_envs), seed=1, clips=clips_for(declared, scene))


@pytest.mark.parametrize("device_like", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_steps_with_and_without_resets_keep_all_data_on_the_device(task: str, device_like: bool) -> None:
    env = _device_like(task, 8) if device_like else make_env(task, 8)
    env.reset()
    env.view.episode_length[:2] = env.cfg.max_episode_length - 3
    generator = torch.Generator().manual_seed(1)
    ended = torch.zeros(8, dtype=torch.bool)

    with ForbidHostSync():
        for _ in range(6):
            result = env.step(torch.randn(8, env.actions.dim, generator=generator))
            ended |= result.truncated
        env.reset(torch.arange(8) % 2 == 0)

    assert bool(ended[:2].all())


@pytest.mark.parametrize("task", TASKS)
def test_skipping_masked_work_changes_no_number(task: str) -> None:
    host, device = make_env(task, 16), _device_like(task, 16)
    host.reset()
    device.reset()
    generator = torch.Generator().manual_seed(3)

    for _ in range(120):
        action = torch.randn(16, host.actions.dim, generator=generator)
        one, two = host.step(action), device.step(action)
        assert torch.equal(one.reward, two.reward)
        assert all(torch.equal(value, two.observations[group]) for group, value in one.observations.items())
    state, other = host.state_dict(), device.state_dict()
    assert all(torch.equal(value.nan_to_num(), other[name].nan_to_num()) for name, value in state.items())
