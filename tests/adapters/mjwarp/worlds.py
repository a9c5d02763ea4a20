"""Small MJWarp batches on Warp's CPU device; every test module that imports this is skipped where Warp is missing."""

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from adapters.mjwarp.capacities import Capacities
from application.robots.scene import SceneModel
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.physics import PhysicsBackend
from tests.adapters.mujoco.small_scenes import WALKER, write_of
from tests.support.tasks import clips_for

if TYPE_CHECKING:
    from adapters.mjwarp.backend import MjwarpBackend

pytest.importorskip("mujoco_warp", reason="mujoco-warp is not installed: pip install 'unilab[mjwarp]'")

CPU = torch.device("cpu")
ROOM = Capacities(contacts=48, constraints=128)
"""Enough for each scene here but a humanoid's. One size for all: kernels are compiled for it."""
HUMANOID_ROOM = Capacities(contacts=96, constraints=400)


def make(
    scene: SceneModel = WALKER, num_envs: int = 3, *, capacities: Capacities | None = ROOM, device: torch.device = CPU
) -> "MjwarpBackend":
    """Return a backend; ``capacities`` None lets it probe."""
    from adapters.mjwarp.backend import MjwarpBackend

    return MjwarpBackend(scene, num_envs, device=device, capacities=capacities)


def make_env(
    task: str, num_envs: int, *, cfg: EnvCfg | None = None, seed: int = 3, device: torch.device = CPU
) -> ManagerBasedRlEnv:
    """Build a declared task's environment, with ``cfg`` instead of its own where given."""
    declared = TASKS[task].build("ppo")
    scene = declared.make_scene()
    capacities = HUMANOID_ROOM if task.startswith("g1_") else ROOM
    backend = make(scene, num_envs, capacities=capacities, device=device)
    return ManagerBasedRlEnv(cfg or declared.env, backend, seed=seed, clips=clips_for(declared, scene))


def hold(backend: PhysicsBackend, steps: int, *, control: float = 0.3) -> Tensor:
    """Hold one control for some physics steps and return each step's qpos and qvel, (steps, num_envs, nq + nv)."""
    seen = []
    for _ in range(steps):
        backend.control[:] = control
        backend.step(1)
        seen.append(torch.cat([backend.state.qpos, backend.state.qvel], dim=1))
    return torch.stack(seen)


def put_default(backend: PhysicsBackend, mask: Tensor) -> None:
    """Reset the rows under ``mask`` to the default pose at rest."""
    write = write_of(backend, reset=mask)
    write.qpos[mask] = torch.tensor(backend.index.default_qpos)
    write.qvel[mask] = 0.0
    backend.commit(write)
