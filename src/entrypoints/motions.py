"""Composition of reference motions: what a run loads, and how a plan is held to what it can load."""

import dataclasses
from collections.abc import Callable, Sequence

from application.config import ResolvedConfig
from application.motion.load import MotionTools, absolute_sources, load_clips
from application.planning import Plan, Request, Surroundings, make_plan
from application.robots.scene import SceneModel
from domain.env_cfg import EnvCfg
from domain.motion.clip import MotionClip
from entrypoints.container import Container

MOTIONS = "scene.motions"
"""Where a configuration names them."""


def motion_tools(container: Container) -> MotionTools:
    """Return the files and kinematics that motions are read and compared with."""
    return MotionTools(files=container.motion_files(), kinematics=container.kinematics)


def clips_of(
    container: Container,
    config: ResolvedConfig,
    scene: SceneModel,
    cfg: EnvCfg,
    tell: Callable[[str], None] = lambda line: None,
) -> list[MotionClip]:
    """Return the reference motions of a configuration; most have none.

    Raises:
        DataError: A motion is missing, damaged, or does not fit robot and control rate; one line.
        ConfigurationError: A motion for another kind of robot.
    """
    return load_clips(config.task.scene.motions, scene, step_dt=cfg.step_dt, tools=motion_tools(container), tell=tell)


def plan_with_motions(
    container: Container, request: Request, around: Surroundings, tell: Callable[[str], None]
) -> Plan:
    """Resolve and check a request, its motions too; the plan's paths mean the same from any folder.

    Raises:
        UnilabError: As ``make_plan`` and ``clips_of``.
    """
    plan = make_plan(request, around)
    clips_of(container, plan.config, plan.scene, plan.config.task.env, tell)
    task = plan.config.task
    scene = task.scene.model_copy(update={"motions": absolute_sources(task.scene.motions)})
    config = dataclasses.replace(plan.config, task=dataclasses.replace(task, scene=scene))
    return dataclasses.replace(plan, config=config)


def motion_settings(motions: Sequence[str] | None) -> dict[str, object]:
    """Return what the option ``--motion`` sets, by path; nothing where it was not given."""
    return {MOTIONS: list(absolute_sources(motions))} if motions else {}
