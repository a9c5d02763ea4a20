"""Builders that cross to a collector process: functions of a module, and partials of them."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv, StepResult
from domain.errors import ConfigurationError
from domain.managers.action import ActionTermCfg
from domain.mdp import actions
from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan
from domain.view import EnvView
from tests.support.full_task import ALL
from tests.support.small_env import AGE, LIMIT, make_env, reward

ENVS = 3
PLAN = SlotPlan(layout=RowLayout(obs=1, action=3), num_envs=ENVS)
HEAVY = ("warp", "rsl_rl", "domain.learning.network", "domain.learning.sac")
"""What a process that only steps an environment has no use for."""
Builder = Callable[[], ManagerBasedRlEnv]


def counting(seed: int = 0, **rewards: object) -> ManagerBasedRlEnv:
    """Observe the episode's age, which a random number of steps begins with; 7 steps an episode."""
    return make_env(
        ENVS,
        seed=seed,
        started=False,
        episode_length_s=0.14,
        stagger_episodes=True,
        observations=AGE,
        actions={"effort": ActionTermCfg(func=actions.JointEffortAction, params={"joints": ALL, "scale": 1.0})},
        terminations=LIMIT,
        rewards=rewards,
    )


def at_step(env: EnvView, *, step: int, action: str, seconds: float = 0.0) -> Tensor:
    """Reward nothing; at one global step sleep, freeze (no other thread gets a turn) or raise."""
    if int(env.step_count) == step:
        if action == "sleep":
            time.sleep(seconds)
        elif action == "freeze":
            ctypes.PyDLL(None).sleep(int(seconds))
        else:
            raise ZeroDivisionError("planted in a reward term")
    return torch.zeros(env.num_envs)


def troubled(step: int, action: str, seconds: float = 0.0) -> ManagerBasedRlEnv:
    """Return ``counting`` with ``at_step``."""
    return counting(trouble=reward(at_step, step=step, action=action, seconds=seconds))


def slow(seconds: float) -> ManagerBasedRlEnv:
    """Take long to build."""
    time.sleep(seconds)
    return counting()


def refused() -> ManagerBasedRlEnv:
    """Fail to build, in the user's words."""
    raise ConfigurationError("rewards.alive.weight is 'much': give a number")


def inspected(builder: Builder, step: int, file: Path) -> ManagerBasedRlEnv:
    """Write what the process is like into ``file`` after a number of steps of ``builder``'s environment."""
    env = builder()
    inner = env.step

    def outer(action: Tensor) -> StepResult:
        result = inner(action)
        if int(env.view.step_count) == step:
            file.write_text(json.dumps(_look()), encoding="utf-8")
        return result

    env.step = outer  # type: ignore[method-assign]
    return env


def _look() -> dict[str, object]:
    return {
        "cuda": torch.cuda.is_initialized(),
        "visible": [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")],
        "heavy": [name for name in HEAVY if name in sys.modules],
        "torch_threads": torch.get_num_threads(),
        "nvidia": [path for path in _open_files() if path.startswith("/dev/nvidia")],
        "tasks": len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 0,
    }


def _open_files() -> list[str]:
    if sys.platform != "linux":
        return []
    mapped = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    # One of them is the listing itself, and is closed by now.
    opened = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return mapped + opened
