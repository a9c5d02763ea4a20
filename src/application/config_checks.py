"""Checks a task's environment without building it, by the rules that its managers check again."""

import math
from collections.abc import Mapping

from domain.env_cfg import EnvCfg
from domain.errors import ConfigurationError
from domain.managers.action import ActionTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.observation import ObservationTermCfg
from domain.managers.terms import Bounds, Ordered, TermCfg, check_params, check_seconds

MOST_STEPS = 1_000_000_000
"""Control steps of an episode, far above any that could be played."""
TABLES = ("actions", "commands", "rewards", "terminations", "events", "curricula", "metrics", "recorders")
"""The flat tables of terms in EnvCfg; observations have groups."""


def terms(env: EnvCfg) -> dict[str, TermCfg]:
    """Return every term by its path, e.g. ``rewards.alive``."""
    tables: dict[str, Mapping[str, TermCfg]] = {name: getattr(env, name) for name in TABLES}
    found = {f"{table}.{name}": cfg for table, cfgs in tables.items() for name, cfg in cfgs.items()}
    for group, cfg in env.observations.items():
        found |= {f"observations.{group}.terms.{name}": term for name, term in cfg.terms.items()}
    return found


def check_env(env: EnvCfg) -> None:
    """Refuse an environment whose settings cannot work.

    Raises:
        ConfigurationError: Names the path of the first such setting.
    """
    for name, value in (("sim_dt", env.sim_dt), ("episode_length_s", env.episode_length_s)):
        if not 0.0 < value < math.inf:
            raise ConfigurationError(f"env.{name} is {value}: give a finite number of seconds above 0")
    _at_least(env.decimation, 1, "env.decimation")
    if not 0.0 < env.episode_length_s / env.step_dt < MOST_STEPS:
        raise ConfigurationError(
            f"env.episode_length_s is {env.episode_length_s} at control steps of {env.step_dt} s: "
            f"give an episode 1 to {MOST_STEPS} steps"
        )
    for group, cfg in env.observations.items():
        if not cfg.terms:
            raise ConfigurationError(f"observations.{group} has no terms")
    for path, term in terms(env).items():
        check_params(term.func, term.params, path)
        if isinstance(term, ActionTermCfg):
            if term.delay is not None:
                term.delay.check(f"{path}.delay")
        elif isinstance(term, ObservationTermCfg):
            _check_observation(term, path)
        elif isinstance(term, EventTermCfg):
            term.check(path)
    for name, command in env.commands.items():
        if command.resampling_time_s is not None:
            check_seconds(command.resampling_time_s, f"commands.{name}.resampling_time_s")
    for name, reward in env.rewards.items():
        Bounds().check(reward.weight, f"rewards.{name}.weight")


def _check_observation(term: ObservationTermCfg, path: str) -> None:
    if term.noise is not None:
        term.noise.check(f"{path}.noise")
    if term.clip is not None:
        Ordered().check(term.clip, f"{path}.clip")
    Bounds().check(term.scale, f"{path}.scale")
    if term.delay is not None:
        term.delay.check(f"{path}.delay")
    _at_least(term.history_length, 1, f"{path}.history_length")


def _at_least(value: int, low: int, path: str) -> None:
    if value < low:
        raise ConfigurationError(f"{path} is {value}: it is at least {low}")
