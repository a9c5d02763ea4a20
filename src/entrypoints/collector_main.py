"""What the collector's process is given: a builder that crosses to it as plain values and makes the environment there.

Nothing here looks for devices or loads a learner: the process steps an environment on the CPU and does nothing else.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from application.config import from_values
from domain.env import ManagerBasedRlEnv
from entrypoints.composition import build_planned_env, saved_text
from entrypoints.container import Container


def env_builder(values: Mapping[str, object], log_dir: Path | None) -> Callable[[], ManagerBasedRlEnv]:
    """Return a picklable function that builds the environment of a resolved configuration.

    Args:
        values: ``ResolvedConfig.values`` of a plan, which names task, algorithm and simulator and holds the seed.
        log_dir: Folder for the engine's messages; None drops them.
    """
    return partial(build_env_of_values, dict(values), log_dir)


def build_env_of_values(values: Mapping[str, object], log_dir: Path | None) -> ManagerBasedRlEnv:
    """Build the environment of a resolved configuration, as ``build_env`` does from the plan.

    Raises:
        ConfigurationError: A value, term or simulator does not fit.
    """
    # Imported late, like everywhere: declarations are many, and only this call needs them.
    from application.planning import known_task
    from application.tasks.registry import TASKS

    config = from_values(known_task(saved_text(dict(values), "task"), TASKS), values)
    task = config.task
    return build_planned_env(Container(), config, task.make_scene(), task.env, log_dir=log_dir)
