"""What every command that builds an environment shares: the container, the surroundings and the environment itself."""

import os
from pathlib import Path

import torch

from application.config_values import from_plain
from application.planning import Plan, Surroundings
from application.ports import Simulator
from domain.env import EnvCfg, ManagerBasedRlEnv
from domain.errors import DeviceError
from domain.rng import derive_seed
from entrypoints.container import Container


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
    """Build the plan's environment with ``cfg``, on one Torch thread.

    Raises:
        ConfigurationError: A term or the simulator refuses its settings.
    """
    # Terms are small operations beside the physics threads: a second Torch thread only takes a CPU from those. A fixed
    # number also keeps the order of sums, so the same seed gives the same bits on any machine.
    torch.set_num_threads(1)
    train = plan.config.task.train
    backend = simulator(container, plan.config.choices.sim).build(
        plan.scene, train.num_envs, cpu_ids=train.cpu_ids, log_dir=None
    )
    rank = _launched("RANK", 0, lowest=0)
    seed = derive_seed(train.seed, f"rank/{rank}") if rank else train.seed
    try:
        return ManagerBasedRlEnv(cfg, backend, seed=seed)
    except BaseException:
        backend.close()
        raise


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
