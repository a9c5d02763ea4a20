"""The only place that names implementations. Each provider calls a small typed builder that imports when called.

A heavy library is therefore loaded by the command that needs it, and the type checker sees that each builder
returns what its port asks for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from dependency_injector import containers, providers
from torch import Tensor

from application.ports import CheckpointStore, MetricSink, OnPolicyLearner, Policy, Recorder, Run, RunStore, Simulator
from application.robots.scene import SceneModel
from application.system import SystemProbe
from application.tasks.task import Task
from domain.physics import Capabilities, PhysicsBackend


@dataclass(frozen=True, kw_only=True)
class LearnerJob:
    """What a learner or a saved policy is built for."""

    task: Task
    observations: Mapping[str, Tensor]
    """An example, (num_envs, width) by group, on the environment's device."""
    action_dim: int
    device: torch.device


class MujocoSimulator:
    """Simulator over ``adapters.mujoco``; its capabilities are read without loading the engine."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend declares."""
        from adapters.mujoco.capabilities import CAPABILITIES

        return CAPABILITIES

    def build(
        self, scene: SceneModel, num_envs: int, *, cpu_ids: Sequence[int] | None, log_dir: Path | None
    ) -> PhysicsBackend:
        """Return a batch of simulations of ``scene``."""
        from adapters.mujoco.backend import MujocoBackend

        return MujocoBackend(scene, num_envs, cpu_ids=cpu_ids, log_dir=log_dir)

    def log_to(self, folder: Path) -> None:
        """Send the engine's messages to a file in ``folder``."""
        from adapters.mujoco.engine import route_log

        route_log(folder)


def _mujoco() -> Simulator:
    return MujocoSimulator()


def _run_store(root: str) -> RunStore:
    from adapters.run_store.folder_store import FolderRunStore

    return FolderRunStore(Path(root))


def _checkpoint_store() -> CheckpointStore:
    from adapters.checkpoints.torch_store import TorchCheckpointStore

    return TorchCheckpointStore()


def _metrics_file(run: Run) -> MetricSink:
    from adapters.metrics.jsonl import JsonlSink

    return JsonlSink(run.path / "metrics.jsonl")


def _console_sink(total: int) -> MetricSink:
    from adapters.metrics.console import ConsoleSink, LastingConsole

    return ConsoleSink(total, LastingConsole())


def _no_tracker(run: Run) -> Sequence[MetricSink]:
    return ()


def _tensorboard(run: Run) -> Sequence[MetricSink]:
    from adapters.metrics.tensorboard import TensorBoardSink

    return (TensorBoardSink(run.path),)


def _recorder() -> Recorder:
    from adapters.rendering.video import MujocoRecorder

    return MujocoRecorder()


def _choose_display() -> Callable[[], str]:
    from adapters.rendering.gl import choose_backend

    return choose_backend


def _system() -> SystemProbe:
    from adapters.system.probe import LocalSystem

    return LocalSystem()


def _ppo(job: LearnerJob) -> OnPolicyLearner:
    from adapters.rsl_rl.ppo import RslRlPpo

    task = job.task
    return RslRlPpo(task.ppo, job.observations, job.action_dim, device=job.device, seed=task.train.seed)


def _ppo_policy(job: LearnerJob, state: Mapping[str, object]) -> Policy:
    from adapters.rsl_rl.actor_critic import load_policy

    return load_policy(state, job.observations, job.action_dim, device=job.device)


class Container(containers.DeclarativeContainer):
    """Providers by port; those that have a choice are aggregates, called with the choice's name first."""

    config = providers.Configuration(strict=True)
    """``runs_dir``: where run folders lie."""

    simulators = providers.Aggregate(mujoco=providers.Singleton(_mujoco))
    engines = providers.Object({"mujoco": "mujoco"})
    """The distribution behind each simulator."""
    run_store = providers.Singleton(_run_store, config.runs_dir)
    checkpoint_store = providers.Singleton(_checkpoint_store)
    metrics_file = providers.Factory(_metrics_file)
    console_sink = providers.Factory(_console_sink)
    trackers = providers.Aggregate(none=providers.Factory(_no_tracker), tensorboard=providers.Factory(_tensorboard))
    recorder = providers.Singleton(_recorder)
    choose_display = providers.Singleton(_choose_display)
    system = providers.Singleton(_system)
    learners = providers.Aggregate(ppo=providers.Factory(_ppo))
    policies = providers.Aggregate(ppo=providers.Factory(_ppo_policy))
