"""A task's declaration steps alike on both backends: same seed, same actions, a masked reset and pushes in between.

Float32 against float64, over 100 control steps. An episode that the engines end in another step would fail here.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.managers.event import EventTermCfg
from domain.mdp import resets
from tests.adapters.mjwarp import worlds
from tests.support import tasks

pytestmark = pytest.mark.slow
STEPS = 100
ENVS = 4


def pushed(cfg: EnvCfg) -> EnvCfg:
    """Add pushes every 0.6 s."""
    velocity = {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-0.5, 0.5)}
    push = EventTermCfg(func=resets.PushRoot, mode="interval", interval_s=(0.6, 0.6), params={"velocity": velocity})
    return replace(cfg, events={**cfg.events, "push": push})


def pair(task: str, cfg: EnvCfg) -> tuple[ManagerBasedRlEnv, ManagerBasedRlEnv]:
    return worlds.make_env(task, ENVS, cfg=cfg, seed=3), tasks.make_env(task, ENVS, cfg=cfg, seed=3)


def terms(env: ManagerBasedRlEnv, observations: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each observation term's columns and each weighted reward term by name."""
    named = {f"reward {name}": env.rewards.weighted[:, i] for i, name in enumerate(env.rewards.names)}
    for group, widths in env.observations.layout.items():
        parts = observations[group].split(list(widths.values()), dim=1)
        named |= {f"{group} {name}": part for name, part in zip(widths, parts, strict=True)}
    return named


def largest_difference(found: Tensor, wanted: Tensor) -> float:
    return (found - wanted).abs().max().item() if found.numel() else 0.0


@pytest.mark.parametrize(
    ("task", "scale", "tolerance"),
    [
        # A pole that is let fall: its motion is unstable and magnifies any difference.
        ("cartpole_balance", 1.0, {"qpos": 1e-2, "qvel": 5e-2, "sensordata": 0.0, "observation": 5e-2, "reward": 2e-3}),
        ("cartpole_swingup", 1.0, {"qpos": 1e-3, "qvel": 3e-3, "sensordata": 0.0, "observation": 3e-3, "reward": 3e-4}),
        ("go2_flat", 0.3, {"qpos": 1e-4, "qvel": 3e-3, "sensordata": 1e-3, "observation": 3e-3, "reward": 3e-4}),
    ],
)
def test_both_backends_step_a_task_alike(task: str, scale: float, tolerance: dict[str, float]) -> None:
    cfg = TASKS[task].build("ppo").env
    found, wanted = pair(task, pushed(cfg) if task == "go2_flat" else cfg)
    torch.testing.assert_close(found.reset(), wanted.reset(), atol=1e-5, rtol=0)
    generator = torch.Generator().manual_seed(0)
    worst = dict.fromkeys(tolerance, 0.0)

    for step in range(STEPS):
        action = scale * torch.randn(ENVS, found.actions.dim, generator=generator)
        results = [env.step(action) for env in (found, wanted)]
        assert torch.equal(results[0].terminated, results[1].terminated), step
        assert results[0].valid.all()
        for name in ("qpos", "qvel", "sensordata"):
            states = [getattr(env.view.state, name) for env in (found, wanted)]
            worst[name] = max(worst[name], largest_difference(*states))
        seen = [terms(env, result.observations) for env, result in zip((found, wanted), results, strict=True)]
        for name, value in seen[0].items():
            kind = "reward" if name.startswith("reward") else "observation"
            worst[kind] = max(worst[kind], largest_difference(value, seen[1][name]))
        if step == 40:
            mask = torch.tensor([False, True, True, False])
            for env in (found, wanted):
                env.reset(mask)

    assert {name: value for name, value in worst.items() if value > tolerance[name]} == {}
