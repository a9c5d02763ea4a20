"""Turns what a user asked for into a plan that can work, before anything is built or written."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import torch

from application.config import Choices, ResolvedConfig, from_values, replaceable_paths, to_values
from application.config_checks import terms
from application.config_values import show
from application.overrides import apply_overrides
from application.removed_options import refuse_removed, refuse_removed_keys
from application.robots.scene import SceneModel
from application.settings import PpoSettings
from application.tasks.task import Task, TaskEntry
from domain.errors import CapabilityError, ConfigurationError, DeviceError, unknown_name
from domain.physics import Capabilities, Execution

LATER_ALGORITHMS = ("appo",)
"""Known names that this version does not train with."""
OFF_POLICY_ALGORITHMS = ("flashsac", "sac", "td3")
"""Those that learn from a replay, which lies on the learner's device."""
MULTI_RANK_ALGORITHMS = ("ppo",)
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What there is to choose from on this machine."""

    tasks: Mapping[str, TaskEntry]
    simulators: Mapping[str, Capabilities]
    devices: Sequence[str]
    """As Torch writes them, the CPU first, e.g. ``cpu``, ``cuda:0``, ``mps``."""
    world_size: int = 1
    """Ranks that were launched together."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asked for; ``settings`` are values by path that options of their own gave."""

    task: str
    algo: str
    sim: str
    device: str = AUTO
    settings: Mapping[str, object] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    saved: Mapping[str, object] | None = None
    """Values of an earlier run to start from, instead of the declaration's."""
    learns: bool = False
    """Whether the algorithm is to learn; playing its policy asks less of a configuration."""
    here: bool = True
    """Whether it is to learn on this machine, and not only to be looked at."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A configuration that has passed every check which needs no simulator."""

    config: ResolvedConfig
    scene: SceneModel
    device: torch.device
    world_size: int
    """Ranks that learn together."""


def make_plan(request: Request, around: Surroundings) -> Plan:
    """Resolve and check a request.

    Raises:
        ConfigurationError: An unknown name, key or impossible value.
        CapabilityError: The simulator lacks something that the task needs; names both.
        DeviceError: The device is unknown or absent, or the algorithm cannot learn on it; lists what can be done.
    """
    entry = known_task(request.task, around.tasks)
    _check_algorithm(request.algo, entry, around.world_size)
    if request.sim not in around.simulators:
        raise ConfigurationError(unknown_name("simulator", request.sim, around.simulators))
    _refuse_removed(request)
    if request.learns and request.here:
        device = learner_device(request.algo, request.device, around)
    else:
        device = resolve_device(request.device, around)
    if request.here:
        check_simulator_device(request, device, around)
    choices = Choices(algo=request.algo, sim=request.sim, device=device)
    declared = entry.build(request.algo)
    values = to_values(declared, choices)
    if request.saved is not None:
        values = {**request.saved, "algo": choices.algo, "sim": choices.sim, "device": choices.device}
    settings = {**({} if request.learns else declared.evaluation), **request.settings}
    overrides = [*(f"{path}={show(value)}" for path, value in settings.items()), *request.overrides]
    values = apply_overrides(values, overrides, replaceable=replaceable_paths(declared))
    config = from_values(entry, values)
    if request.learns:
        check_replay(config.task)
    scene = config.task.make_scene()
    check_capabilities(config, scene, around.simulators[request.sim])
    return Plan(config=config, scene=scene, device=torch.device(device), world_size=around.world_size)


def known_task(name: str, tasks: Mapping[str, TaskEntry]) -> TaskEntry:
    """Return a task of the list. Raises ConfigurationError, naming the nearest, for an unknown one."""
    if name not in tasks:
        raise ConfigurationError(unknown_name("task", name, tasks))
    return tasks[name]


def _check_algorithm(algo: str, entry: TaskEntry, world_size: int) -> None:
    if algo not in entry.algorithms:
        if algo in LATER_ALGORITHMS:
            raise ConfigurationError(
                f"algorithm '{algo}' is not in this version for task '{entry.name}': use {', '.join(entry.algorithms)}"
            )
        raise ConfigurationError(unknown_name("algorithm", algo, entry.algorithms))
    if world_size > 1 and algo not in MULTI_RANK_ALGORITHMS:
        raise ConfigurationError(
            f"algorithm '{algo}' learns on one device and WORLD_SIZE is {world_size}: start one process, "
            f"or use {', '.join(MULTI_RANK_ALGORITHMS)}"
        )


def resolve_device(name: str, around: Surroundings) -> str:
    """Return ``name`` as one of the devices there; ``auto`` takes a CUDA device where there is one, else the CPU.

    Where several ranks were launched together, ``cuda`` stays without an index: each rank takes its own.

    Raises:
        DeviceError: Not a device, or not on this machine; lists those that are there.
    """
    cuda = [device for device in around.devices if device.startswith("cuda")]
    if cuda and name in (AUTO, "cuda"):
        return cuda[0] if around.world_size == 1 else "cuda"
    if name == AUTO:
        return "cpu"
    if name not in around.devices:
        raise DeviceError(f"device '{name}' is not on this machine: use {', '.join((AUTO, *around.devices))}")
    return name


def learner_device(algo: str, name: str, around: Surroundings) -> str:
    """Return ``name`` as the device that ``algo`` learns on; off-policy, ``auto`` takes CUDA (or ROCm), else MPS.

    Raises:
        DeviceError: No such device, or an off-policy algorithm was to learn on something else than one GPU; one line
            with the reason and what can be done instead.
    """
    if algo not in OFF_POLICY_ALGORITHMS:
        return resolve_device(name, around)
    # Torch gives devices of ROCm the name of CUDA.
    fitting = [device for device in around.devices if device.partition(":")[0] in ("cuda", "mps")]
    chosen = [d for d in fitting if name in (AUTO, d) or (name == "cuda" and d.startswith("cuda"))]
    if chosen:
        return min(chosen)
    asked = "" if name == AUTO else f" (--device was '{name}')"
    there = f"'{name}' is none of those here" if fitting else f"Torch sees none here{asked}"
    instead = f"use --device {' or '.join(fitting)}"
    if not fitting:
        instead = "use --algo ppo, which trains on this CPU, or see 'unilab doctor' for how to get one"
    raise DeviceError(
        f"algorithm '{algo}' learns on exactly one GPU (CUDA, ROCm or MPS), where its replay, policy and updates stay, "
        f"and {there}; 'unilab eval' plays its policies on any machine: {instead}"
    )


def check_simulator_device(request: Request, device: str, around: Surroundings) -> None:
    """Refuse a simulator that steps on the device itself where that is the wrong one for it.

    Training needs a CUDA device; playing a policy in a few environments also works on the CPU.

    Raises:
        DeviceError: One line with the reason and what can be done instead.
    """
    if around.simulators[request.sim].execution is not Execution.DEVICE_RESIDENT:
        return
    hosts = sorted(name for name, found in around.simulators.items() if found.execution is Execution.HOST_BRIDGE)
    instead = f"use --sim {' or '.join(hosts)}" if hosts else "there is no other --sim"
    kind = device.partition(":")[0]
    if kind != "cuda" and (request.learns or kind != "cpu"):
        also = "" if kind == "cpu" else "; a policy also plays with --device cpu"
        raise DeviceError(
            f"simulator '{request.sim}' trains on a CUDA GPU only, where its environments stay, and the device is "
            f"{device}{also}: {instead}"
        )


def check_replay(task: Task) -> None:
    """Refuse an off-policy task whose replay cannot take in one env step, or whose run ends before it learns.

    Raises:
        ConfigurationError: Names both numbers.
    """
    learner, envs = task.learner, task.train.num_envs
    if isinstance(learner, PpoSettings):
        return
    if envs > learner.replay_rows:
        raise ConfigurationError(
            f"train.num_envs is {envs}, above {learner.kind}.replay_rows ({learner.replay_rows}), which would not hold "
            "one step of all of them: lower it, or keep more rows"
        )
    # The rows of a step are learnt from in the second step after it.
    collected = max(0, task.train.iterations - 2) * envs
    if collected < learner.learning_start_rows:
        raise ConfigurationError(
            f"{learner.kind}.learning_start_rows is {learner.learning_start_rows}, and train.iterations "
            f"({task.train.iterations}) of train.num_envs ({envs}) collect {collected} in time: nothing would be learnt"
        )


def _refuse_removed(request: Request) -> None:
    """Refuse options that do not exist here before anything else is said about the request."""
    for override in request.overrides:
        refuse_removed(override.partition("=")[0].strip())
    refuse_removed_keys(request.saved or {})


def check_capabilities(config: ResolvedConfig, scene: SceneModel, capabilities: Capabilities) -> None:
    """Refuse a task that needs more than the simulator declares.

    A term's class or function may name the model fields that it randomises in ``required_fields``.

    Raises:
        CapabilityError: Names task, term or sensor, and simulator.
    """
    task, sim = config.task.name, config.choices.sim
    for path, term in terms(config.task.env).items():
        fields: frozenset[str] = getattr(term.func, "required_fields", frozenset())
        missing = sorted(fields - capabilities.model_fields)
        if missing:
            raise CapabilityError(
                f"task '{task}' varies {', '.join(missing)} from env to env ({path}), and simulator '{sim}' cannot: "
                "use another --sim"
            )
    for sensor in scene.index.sensors.values():
        if sensor.type not in capabilities.sensor_types:
            raise CapabilityError(
                f"task '{task}' reads sensor '{sensor.name}' of type {sensor.type}, and simulator '{sim}' has none: "
                "use another --sim"
            )


def fitting_simulators(entry: TaskEntry, simulators: Mapping[str, Capabilities]) -> list[str]:
    """Return the simulators that declare all that the task needs, with its first algorithm."""
    task = entry.build(entry.algorithms[0])
    scene = task.make_scene()
    fitting = []
    for name, capabilities in simulators.items():
        config = ResolvedConfig(task=task, choices=Choices(algo=entry.algorithms[0], sim=name, device="cpu"))
        with suppress(CapabilityError):
            check_capabilities(config, scene, capabilities)
            fitting.append(name)
    return fitting
