"""The configuration: a task with every value that a user may change, as plain data and back.

Functions come from the task's declaration; everything else is written down under the paths that a user sets, e.g.
``rewards.alive.weight``, ``commands.twist.params.lin_vel_x``, ``train.save_interval``. The learner's section has the
algorithm's name, e.g. ``ppo.learning_rate``, ``sac.batch_size``; off-policy algorithms have ``runtime`` as well.
"""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from application.config_checks import TABLES, check_env, terms
from application.config_terms import term_from_plain, term_to_plain
from application.config_values import exact_keys, from_plain, mapping, show, to_plain
from application.removed_options import refuse_removed_keys
from application.settings import PpoSettings, RuntimeSettings, SceneSettings, Settings
from application.tasks.task import LearnerSettings, Task, TaskEntry
from domain.env_cfg import EnvCfg
from domain.errors import ConfigurationError, unknown_name
from domain.managers.observation import ObservationGroupCfg
from domain.managers.terms import TermCfg

SCHEMA_VERSION = 1
RUNTIME = "runtime"
SCENE = "scene"
ENV_SCALARS = ("sim_dt", "decimation", "episode_length_s", "scale_rewards_by_dt", "stagger_episodes")
_S = TypeVar("_S", bound=Settings)
_ORDER = (
    "actions",
    "commands",
    "observations",
    "rewards",
    "terminations",
    "events",
    "curricula",
    "metrics",
    "recorders",
)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a user picks beside the task."""

    algo: str
    sim: str
    device: str
    """As Torch writes it, e.g. ``cuda:0``."""


@dataclass(frozen=True, kw_only=True)
class ResolvedConfig:
    """A task with all values applied and checked, and the choices."""

    task: Task
    choices: Choices

    @property
    def values(self) -> dict[str, object]:
        """The whole configuration as plain data."""
        return to_values(self.task, self.choices)


def to_values(task: Task, choices: Choices) -> dict[str, object]:
    """Return ``task`` and ``choices`` as plain data that YAML can hold.

    Raises:
        ConfigurationError: The declaration holds a value that cannot be written down; names its path.
    """
    env = task.env
    values: dict[str, object] = {"schema_version": SCHEMA_VERSION, "task": task.name}
    values |= {"algo": choices.algo, "sim": choices.sim, "device": choices.device}
    values["train"] = task.train.model_dump(mode="json")
    values["env"] = {name: to_plain(getattr(env, name), f"env.{name}") for name in ENV_SCALARS}
    values[SCENE] = task.scene.model_dump(mode="json")
    for table in _ORDER:
        if table == "observations":
            values[table] = {name: _group_to_plain(group, name) for name, group in env.observations.items()}
        else:
            cfgs: Mapping[str, TermCfg] = getattr(env, table)
            values[table] = {name: term_to_plain(cfg, f"{table}.{name}") for name, cfg in cfgs.items()}
    learner = task.learner
    plain = learner.model_dump(mode="json") if isinstance(learner, PpoSettings) else to_plain(learner, choices.algo)
    values[choices.algo] = plain
    if task.runtime is not None:
        values[RUNTIME] = task.runtime.model_dump(mode="json")
    return values


def from_values(entry: TaskEntry, values: Mapping[str, object]) -> ResolvedConfig:
    """Return the declared task with every value of ``values`` applied and checked.

    Raises:
        ConfigurationError: Another schema or task, an unknown, removed or missing key or term, a value of the wrong
            type or out of range; one line that names the path.
    """
    refuse_removed_keys(values)
    version = values.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigurationError(f"schema_version is {show(version)}: this unilab reads {SCHEMA_VERSION}")
    names = {name: from_plain(str, "", values.get(name), name) for name in ("task", "algo", "sim", "device")}
    if names["task"] != entry.name:
        raise ConfigurationError(f"task is '{names['task']}', and these values are for task '{entry.name}'")
    if names["algo"] not in entry.algorithms:
        raise ConfigurationError(unknown_name(f"algorithm for task '{entry.name}'", names["algo"], entry.algorithms))
    task = entry.build(names["algo"])
    _check_root(values, names["algo"], task.runtime)
    task = dataclasses.replace(
        task,
        env=_env_from_plain(task.env, values, task.name),
        scene=_scene_from_plain(task.scene, values.get(SCENE, {})),
        train=settings_from_plain(type(task.train), values["train"], "train"),
        learner=_learner_from_plain(task.learner, values[names["algo"]], names["algo"]),
        runtime=task.runtime and settings_from_plain(RuntimeSettings, values[RUNTIME], RUNTIME),
    )
    check_env(task.env)
    return ResolvedConfig(task=task, choices=Choices(algo=names["algo"], sim=names["sim"], device=names["device"]))


def replaceable_paths(task: Task) -> frozenset[str]:
    """Return the paths of structures that may be null, and so may be set as a whole."""
    found = set()
    for path, cfg in terms(task.env).items():
        hints = typing.get_type_hints(type(cfg))
        for field in dataclasses.fields(cfg):
            options = typing.get_args(hints[field.name])
            if type(None) in options and any(map(dataclasses.is_dataclass, options)):
                found.add(f"{path}.{field.name}")
    return frozenset(found)


def settings_from_plain(cls: type[_S], value: object, path: str) -> _S:
    """Return plain ``value`` as settings; every key must be there.

    Raises:
        ConfigurationError: One line that names the first wrong key, e.g. ``ppo.learning_rate``.
    """
    plain = mapping(value, path)
    exact_keys(cls.model_fields, plain, path)
    try:
        return cls.model_validate({name: _tuples(item) for name, item in plain.items()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        keys = [str(part) for part in first["loc"] if isinstance(part, int) or part in cls.model_fields]
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("int_type", "float_type") and isinstance(first["input"], str):
            reason = "give a number, without quotes"
        if not first["loc"]:
            raise ConfigurationError(f"{path}: {reason}") from error
        raise ConfigurationError(f"{'.'.join([path, *keys])} is {show(first['input'])}: {reason}") from error


def _group_to_plain(group: ObservationGroupCfg, name: str) -> dict[str, object]:
    path = f"observations.{name}.terms"
    cfgs = {term: term_to_plain(cfg, f"{path}.{term}") for term, cfg in group.terms.items()}
    return {"enable_corruption": group.enable_corruption, "terms": cfgs}


def _learner_from_plain(declared: LearnerSettings, value: object, algo: str) -> LearnerSettings:
    if isinstance(declared, PpoSettings):
        return settings_from_plain(PpoSettings, value, algo)
    learner: LearnerSettings = from_plain(type(declared), declared, value, algo)
    return learner


def _scene_from_plain(declared: SceneSettings, value: object) -> SceneSettings:
    """Return the scene's settings; what is absent is as declared: runs saved before it existed stay readable."""
    return settings_from_plain(SceneSettings, {**declared.model_dump(mode="json"), **mapping(value, SCENE)}, SCENE)


def _check_root(values: Mapping[str, object], algo: str, runtime: RuntimeSettings | None) -> None:
    known = ["schema_version", "task", "algo", "sim", "device", "train", "env", *_ORDER, algo]
    known += [] if runtime is None else [RUNTIME]
    for name in values:
        if name not in (*known, SCENE):
            raise ConfigurationError(unknown_name("key", str(name), (*known, SCENE)))
    for name in known:
        if name not in values:
            raise ConfigurationError(f"{name} is missing")


def _env_from_plain(env: EnvCfg, values: Mapping[str, object], task: str) -> EnvCfg:
    hints = typing.get_type_hints(EnvCfg)
    scalars = mapping(values["env"], "env")
    exact_keys(ENV_SCALARS, scalars, "env")
    changes: dict[str, Any] = {
        name: from_plain(hints[name], getattr(env, name), scalars[name], f"env.{name}") for name in ENV_SCALARS
    }
    for table in TABLES:
        changes[table] = _terms_from_plain(getattr(env, table), values[table], table, task)
    groups = mapping(values["observations"], "observations")
    _same_terms(env.observations, groups, "observations", task)
    changes["observations"] = {
        name: _group_from_plain(group, groups[name], f"observations.{name}", task)
        for name, group in env.observations.items()
    }
    return dataclasses.replace(env, **changes)


def _group_from_plain(group: ObservationGroupCfg, value: object, path: str, task: str) -> ObservationGroupCfg:
    plain = mapping(value, path)
    exact_keys(("enable_corruption", "terms"), plain, path)
    corruption = from_plain(bool, group.enable_corruption, plain["enable_corruption"], f"{path}.enable_corruption")
    cfgs: dict[str, Any] = _terms_from_plain(group.terms, plain["terms"], f"{path}.terms", task)
    return dataclasses.replace(group, enable_corruption=corruption, terms=cfgs)


def _terms_from_plain(declared: Mapping[str, TermCfg], value: object, path: str, task: str) -> dict[str, TermCfg]:
    plain = mapping(value, path)
    _same_terms(declared, plain, path, task)
    return {name: term_from_plain(cfg, plain[name], f"{path}.{name}") for name, cfg in declared.items()}


def _same_terms(declared: Mapping[str, object], given: Mapping[str, object], path: str, task: str) -> None:
    for name in given:
        if name not in declared:
            raise ConfigurationError(
                f"{path}.{name} is not declared by task '{task}': {unknown_name('term', name, declared)}"
            )
    for name in declared:
        if name not in given:
            raise ConfigurationError(f"{path}.{name} is declared by task '{task}' and missing in these values")


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
