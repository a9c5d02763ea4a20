"""Environments of declared tasks on the real engine, for tests."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adapters.mujoco.backend import MujocoBackend
from application.robots.scene import SceneModel
from application.tasks.registry import TASKS
from application.tasks.task import Task
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.managers.command import CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.motion.clip import MotionClip
from entrypoints.container import Container
from entrypoints.motions import clips_of


def make_env(
    task: str, num_envs: int, *, seed: int = 1, cfg: EnvCfg | None = None, cpu_ids: Sequence[int] | None = None
) -> ManagerBasedRlEnv:
    """Build a task's environment, with ``cfg`` instead of the declared one where given."""
    declared = TASKS[task].build("ppo")
    scene = declared.make_scene()
    backend = MujocoBackend(scene, num_envs, cpu_ids=cpu_ids)
    return ManagerBasedRlEnv(cfg or declared.env, backend, seed=seed, clips=clips_for(declared, scene))


def clips_for(task: Task, scene: SceneModel) -> list[MotionClip]:
    """Return the reference motions that a task is declared with."""
    return clips_of(Container(), task, scene)


def with_event(cfg: EnvCfg, name: str, **params: Any) -> EnvCfg:
    """Return ``cfg`` with some parameters of an event replaced."""
    term: EventTermCfg = cfg.events[name]
    return replace(cfg, events={**cfg.events, name: replace(term, params={**term.params, **params})})


def with_command(cfg: EnvCfg, name: str, **params: Any) -> EnvCfg:
    """Return ``cfg`` with some parameters of a command replaced."""
    term: CommandTermCfg = cfg.commands[name]
    return replace(cfg, commands={**cfg.commands, name: replace(term, params={**term.params, **params})})
