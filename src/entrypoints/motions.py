"""Composition of reference motions: what a run loads, and how a plan is held to what it can load."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from application.config import SCENE
from application.motion.load import MotionTools, absolute_sources, load_clips
from application.planning import Plan, Request, Surroundings, make_plan
from application.robots.scene import SceneModel
from application.tasks.task import Task
from domain.errors import ConfigurationError
from domain.motion.clip import MotionClip
from domain.motion.command import MotionCommand
from domain.motion.terminations import anchor_height_off
from entrypoints.container import Container

MOTIONS = "scene.motions"
"""Where a configuration names them."""


def motion_tools(container: Container) -> MotionTools:
    """Return the files and kinematics that motions are read and compared with."""
    return MotionTools(files=container.motion_files(), kinematics=container.kinematics)


def clips_of(
    container: Container, task: Task, scene: SceneModel, tell: Callable[[str], None] = lambda line: None
) -> list[MotionClip]:
    """Return the reference motions of a task; most have none.

    Raises:
        DataError: A motion is missing, damaged, or does not fit robot and control rate; one line.
        ConfigurationError: A motion for another kind of robot, one named twice, one for a task that follows none, or
            none for a task that does.
    """
    _check_followed(task)
    return load_clips(
        task.scene.motions,
        scene,
        step_dt=task.env.step_dt,
        tools=motion_tools(container),
        tell=tell,
        height_limit=_height_limit(task),
    )


def _height_limit(task: Task) -> float:
    """Return how far the task lets the anchor be from its height, m; infinite where it does not look."""
    limits = (t.params["limit"] for t in task.env.terminations.values() if t.func is anchor_height_off)
    return min(map(float, limits), default=math.inf)


def _check_followed(task: Task) -> None:
    """Raise ConfigurationError unless a task has motions where it follows some, and there alone."""
    terms = [term.func for term in task.env.commands.values()]
    follows = any(isinstance(func, type) and issubclass(func, MotionCommand) for func in terms)
    motions = task.scene.motions
    if motions and not follows:
        raise ConfigurationError(
            f"{MOTIONS} names {motions[0]}, and task '{task.name}' follows no motion: leave --motion out"
        )
    if follows and not motions:
        raise ConfigurationError(
            f"{MOTIONS} is empty, and task '{task.name}' follows a motion: give --motion FILE or builtin:NAME"
        )


def plan_with_motions(
    container: Container, request: Request, around: Surroundings, tell: Callable[[str], None]
) -> Plan:
    """Resolve and check a request, its motions too; the plan's paths mean the same from any folder.

    Raises:
        UnilabError: As ``make_plan`` and ``clips_of``.
    """
    plan = make_plan(_without_lost_meshes(request, tell), around)
    scene = plan.config.task.scene
    places: dict[str, object] = {"motions": absolute_sources(scene.motions)}
    if scene.mesh_dir is not None:
        places["mesh_dir"] = str(Path(scene.mesh_dir).expanduser().absolute())
    scene = scene.model_copy(update=places)
    task = dataclasses.replace(plan.config.task, scene=scene)
    clips_of(container, task, plan.scene, tell)
    return dataclasses.replace(plan, config=dataclasses.replace(plan.config, task=task))


def _without_lost_meshes(request: Request, tell: Callable[[str], None]) -> Request:
    """Return the request without the meshes of an earlier run that are no longer there: they are for pictures alone."""
    scene = (request.saved or {}).get(SCENE)
    folder = scene.get("mesh_dir") if isinstance(scene, Mapping) else None
    if request.saved is None or not isinstance(scene, Mapping) or not folder or Path(str(folder)).is_dir():
        return request
    tell(f"the meshes of this run are no longer in {folder}: simple shapes are drawn instead")
    return dataclasses.replace(request, saved={**request.saved, SCENE: {**scene, "mesh_dir": None}})


def motion_settings(motions: Sequence[str] | None) -> dict[str, object]:
    """Return what the option ``--motion`` sets, by path; nothing where it was not given."""
    return {MOTIONS: list(absolute_sources(motions))} if motions else {}
