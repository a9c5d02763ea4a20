"""What every command that builds an environment shares: the container, the surroundings and the environment itself."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from application.config import ResolvedConfig
from application.config_values import from_plain
from application.planning import Plan, Surroundings
from application.ports import SimulationJob, Simulator
from application.robots.scene import SceneModel
from application.settings import TrainSettings
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.errors import DeviceError
from domain.physics import Execution
from domain.replay.layout import RowLayout, layout_of
from domain.rng import derive_seed
from entrypoints.container import Container
from entrypoints.motions import clips_of


@dataclass(frozen=True, kw_only=True)
class EnvFacts:
    """What only a built environment knows of itself."""

    widths: Mapping[str, int]
    """Columns of each observation group."""
    action_low: tuple[float, ...]
    """Least raw action of each column that a bounded policy gives."""
    action_high: tuple[float, ...]

    @property
    def layout(self) -> RowLayout:
        """Of a replay row. Raises ConfigurationError for a task without the group ``actor``."""
        return layout_of(self.widths, len(self.action_low))


def facts_of(env: ManagerBasedRlEnv) -> EnvFacts:
    """Return the facts of an environment."""
    low, high = env.actions.bounds
    return EnvFacts(widths=env.observations.widths, action_low=low, action_high=high)


def make_container(runs_dir: Path) -> Container:
    """Return a container whose runs lie in ``runs_dir``."""
    container = Container()
    container.config.from_dict({"runs_dir": str(runs_dir)})
    return container


def look_around(container: Container) -> Surroundings:
    """Return the tasks, simulators and devices to choose from.

    Raises:
        DeviceError: WORLD_SIZE is no whole number above 0.
    """
    # Imported late: declarations are not needed by commands that only read runs.
    from application.tasks.registry import TASKS

    return Surroundings(
        tasks=TASKS,
        simulators={name: simulator(container, name).capabilities for name in container.simulators.providers},
        devices=[device.name for device in container.system().devices()],
        world_size=_launched("WORLD_SIZE", 1, lowest=1),
    )


def simulator(container: Container, name: str) -> Simulator:
    """Return a simulator that planning has accepted."""
    chosen: Simulator = container.simulators(name)
    return chosen


def build_env(container: Container, plan: Plan, cfg: EnvCfg) -> ManagerBasedRlEnv:
    """Build the plan's environment with ``cfg``.

    Raises:
        ConfigurationError: A term or the simulator refuses its settings.
    """
    return build_planned_env(container, plan.config, plan.scene, cfg, log_dir=None)


def build_planned_env(
    container: Container, config: ResolvedConfig, scene: SceneModel, cfg: EnvCfg, *, log_dir: Path | None
) -> ManagerBasedRlEnv:
    """Build an environment for a configuration that planning has accepted, and set how many threads Torch takes.

    Args:
        container: Knows the simulators.
        config: Gives the simulator, the number of envs, their CPUs, the device and the seed.
        scene: What is simulated.
        cfg: The environment's own part, which may differ from the configuration's.
        log_dir: Folder for the engine's messages; None drops them.

    Raises:
        ConfigurationError: A term or the simulator refuses its settings.
        DataError: A reference motion is missing, damaged, or does not fit.
    """
    torch.set_num_threads(torch_threads(config.task.train))
    clips = clips_of(container, config.task, scene)
    train = config.task.train
    job = SimulationJob(
        scene=scene,
        num_envs=train.num_envs,
        device=torch.device(config.choices.device),
        cpu_ids=train.cpu_ids,
        log_dir=log_dir,
        settings=config.task.scene,
    )
    backend = simulator(container, config.choices.sim).build(job)
    rank = _launched("RANK", 0, lowest=0)
    seed = derive_seed(train.seed, f"rank/{rank}") if rank else train.seed
    try:
        return ManagerBasedRlEnv(cfg, backend, seed=seed, clips=clips)
    except BaseException:
        backend.close()
        raise


def torch_threads(train: TrainSettings) -> int:
    """Return how many threads the terms of an environment on the CPU take.

    They work while the physics threads rest. Up to 1024 rows a second one costs more than it gives; with thousands, and
    CPUs that are many and slow, one alone takes as long as all of the physics.
    """
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(4, train.num_envs // 1024, (cpus if train.cpu_ids is None else len(train.cpu_ids)) // 4))


def record_step(container: Container, plan: Plan, env: ManagerBasedRlEnv) -> None:
    """Record the environment's step as one CUDA graph, where it lives on a CUDA device."""
    capabilities = simulator(container, plan.config.choices.sim).capabilities
    if capabilities.execution is Execution.DEVICE_RESIDENT and env.device.type == "cuda":
        env.record()


def saved_text(values: dict[str, object], name: str) -> str:
    """Return a text of a saved configuration. Raises ConfigurationError where it is none."""
    text: str = from_plain(str, "", values.get(name), name)
    return text


def _launched(name: str, default: int, *, lowest: int) -> int:
    """Return what the launcher of several ranks has set."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) < lowest:
        raise DeviceError(f"{name} is '{text}', not a whole number from {lowest}: unset it, or start through torchrun")
    return int(text)
