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


def touching(env: ManagerBasedRlEnv) -> Tensor:
    """Return what each contact sensor has found, (num_envs, sensors)."""
    slots = [slot for slot in env.view.backend.index.sensors.values() if slot.type == "contact"]
    columns = [env.view.state.sensordata[:, slot.adr] for slot in slots]
    return torch.stack(columns, dim=1) if columns else torch.zeros(env.num_envs, 0)


def largest_difference(found: Tensor, wanted: Tensor, rows: Tensor) -> float:
    return (found - wanted)[rows].abs().max().item() if found[rows].numel() else 0.0


@pytest.mark.parametrize(
    ("task", "scale", "tolerance"),
    [
        # A pole that is let fall: its motion is unstable and magnifies any difference.
        ("cartpole_balance", 1.0, {"qpos": 1e-2, "qvel": 5e-2, "sensordata": 0.0, "observation": 5e-2, "reward": 2e-3}),
        ("cartpole_swingup", 1.0, {"qpos": 1e-3, "qvel": 3e-3, "sensordata": 0.0, "observation": 3e-3, "reward": 3e-4}),
        ("go2_flat", 0.3, {"qpos": 1e-4, "qvel": 3e-3, "sensordata": 1e-3, "observation": 3e-3, "reward": 3e-4}),
        ("g1_walk", 0.3, {"qpos": 5e-4, "qvel": 2e-2, "sensordata": 5e-3, "observation": 2e-2, "reward": 5e-3}),
        ("g1_motion", 0.3, {"qpos": 1e-4, "qvel": 3e-3, "sensordata": 3e-3, "observation": 3e-3, "reward": 3e-4}),
    ],
)
def test_both_backends_step_a_task_alike(task: str, scale: float, tolerance: dict[str, float]) -> None:
    cfg = TASKS[task].build("ppo").env
    envs = pair(task, pushed(cfg) if task == "go2_flat" else cfg)
    found, wanted = envs
    torch.testing.assert_close(found.reset(), wanted.reset(), atol=1e-5, rtol=0)
    generator = torch.Generator().manual_seed(0)
    worst = dict.fromkeys(tolerance, 0.0)
    # From where one engine's foot touches down a substep before the other's, a row is not compared until it resets.
    same = torch.ones(ENVS, dtype=torch.bool)
    compared = 0

    for step in range(STEPS):
        action = scale * torch.randn(ENVS, found.actions.dim, generator=generator)
        results = [env.step(action) for env in envs]
        ended = [result.terminated | result.truncated for result in results]
        same = (same | (ended[0] & ended[1])) & (touching(found) == touching(wanted)).all(dim=1)
        compared += int(same.sum())
        assert torch.equal(ended[0][same], ended[1][same]), step
        assert results[0].valid.all()
        for name in ("qpos", "qvel", "sensordata"):
            one, two = (getattr(env.view.state, name) for env in envs)
            worst[name] = max(worst[name], largest_difference(one, two, same))
        seen = [terms(env, result.observations) for env, result in zip(envs, results, strict=True)]
        for name, value in seen[0].items():
            kind = "reward" if name.startswith("reward") else "observation"
            worst[kind] = max(worst[kind], largest_difference(value, seen[1][name], same))
        if step == 40:
            mask = torch.tensor([False, True, True, False])
            for env in envs:
                env.reset(mask)
            same |= mask

    assert {name: value for name, value in worst.items() if value > tolerance[name]} == {}
    assert compared >= (0.9 if task.startswith("g1_") else 1.0) * STEPS * ENVS
