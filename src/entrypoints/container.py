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

from application.motion.ports import Kinematics, MotionFiles, MotionPlotter
from application.motion.trajectory import robot_of
from application.ports import (
    CheckpointStore,
    Collector,
    MetricSink,
    OnPolicyLearner,
    Policy,
    Recorder,
    Run,
    RunStore,
    SimulationJob,
    Simulator,
    TraceSink,
)
from application.robots.scene import SceneModel
from application.settings import PpoSettings
from application.system import SystemProbe
from application.tasks.task import Task
from application.trace import TRACE, TraceSource
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError
from domain.learning.config import ExecutionCfg, FlashSacCfg, SacCfg, Td3Cfg
from domain.learning.kernels import Kernels
from domain.learning.learner import Learner, LearnerPlan
from domain.physics import Capabilities, PhysicsBackend
from domain.replay.batch import TransitionBatch
from domain.replay.slots import SlotPlan
from domain.timing import TraceHeader
from domain.transfer import Transfer


@dataclass(frozen=True, kw_only=True)
class LearnerJob:
    """What a learner or a saved policy is built for."""

    task: Task
    observations: Mapping[str, Tensor]
    """An example, (num_envs, width) by group, on the environment's device."""
    action_dim: int
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class OffPolicyJob:
    """What an off-policy learner is built for."""

    task: Task
    plan: LearnerPlan
    batches: tuple[TransitionBatch, TransitionBatch]
    execution: ExecutionCfg
    fused: bool
    """Whether costly operations run as Triton kernels."""


@dataclass(frozen=True, kw_only=True)
class CollectorJob:
    """What a collector process is started with."""

    builder: Callable[[], ManagerBasedRlEnv]
    """Can be pickled."""
    slots: SlotPlan
    state: Mapping[str, Tensor] | None
    """Of the environment to continue from."""
    checksums: bool
    interrupted: Callable[[], bool]
    """Asked while the process starts."""


class MujocoSimulator:
    """Simulator over ``adapters.mujoco``; its capabilities are read without loading the engine."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend declares."""
        from adapters.mujoco.capabilities import CAPABILITIES

        return CAPABILITIES

    def build(self, job: SimulationJob) -> PhysicsBackend:
        """Return a batch of simulations, whose state is on the CPU whatever the learner's device."""
        from adapters.mujoco.backend import MujocoBackend

        return MujocoBackend(job.scene, job.num_envs, cpu_ids=job.cpu_ids, log_dir=job.log_dir)

    def log_to(self, folder: Path) -> None:
        """Send the engine's messages to a file in ``folder``."""
        from adapters.mujoco.engine import route_log

        route_log(folder)


class MjwarpSimulator:
    """Simulator over ``adapters.mjwarp``; its capabilities are read without loading Warp, which may be absent."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend declares."""
        from adapters.mjwarp.capabilities import CAPABILITIES

        return CAPABILITIES

    def build(self, job: SimulationJob) -> PhysicsBackend:
        """Return a batch of simulations on the job's device; the engine writes no messages."""
        if job.cpu_ids is not None:
            raise ConfigurationError(
                "train.cpu_ids pins physics threads, of which simulator 'mjwarp' has none: leave it out"
            )
        try:
            from adapters.mjwarp.backend import MjwarpBackend
            from adapters.mjwarp.capacities import Capacities
        except ModuleNotFoundError as error:
            if error.name not in ("warp", "mujoco_warp"):
                raise
            raise ConfigurationError("mujoco-warp is not installed: pip install 'unilab[mjwarp]'") from error

        contacts, constraints = job.settings.max_contacts, job.settings.max_constraints
        given = None
        if contacts is not None and constraints is not None:
            given = Capacities(contacts=contacts, constraints=constraints)
        return MjwarpBackend(job.scene, job.num_envs, device=job.device, capacities=given)

    def log_to(self, folder: Path) -> None:
        """Nothing to send: what the engine has to say is asked of the backend."""


def _mujoco() -> Simulator:
    return MujocoSimulator()


def _mjwarp() -> Simulator:
    return MjwarpSimulator()


def _run_store(root: str) -> RunStore:
    from adapters.run_store.folder_store import FolderRunStore

    return FolderRunStore(Path(root))


def _checkpoint_store() -> CheckpointStore:
    from adapters.checkpoints.torch_store import TorchCheckpointStore

    return TorchCheckpointStore()


def _metrics_file(run: Run) -> MetricSink:
    from adapters.metrics.jsonl import JsonlSink

    return JsonlSink(run.path / "metrics.jsonl")


def _trace_source(run: Run) -> TraceSource:
    from adapters.metrics.trace_file import TraceFileReader

    return TraceFileReader(run.path / TRACE)


def _console_sink(total: int) -> MetricSink:
    from adapters.metrics.console import ConsoleSink, LastingConsole

    return ConsoleSink(total, LastingConsole())


def _no_tracker(run: Run) -> Sequence[MetricSink]:
    return ()


def _tensorboard(run: Run) -> Sequence[MetricSink]:
    from adapters.metrics.tensorboard import TensorBoardSink

    return (TensorBoardSink(run.path),)


def _motion_files() -> MotionFiles:
    from adapters.motion_npz.motion_files import LocalMotionFiles

    return LocalMotionFiles()


def _kinematics(scene: SceneModel) -> Kinematics:
    from adapters.mujoco.kinematics import MujocoKinematics

    return MujocoKinematics(scene, robot_of(scene.index))


def _motion_plotter() -> MotionPlotter:
    from adapters.plotting.motion_figure import MatplotlibMotionPlotter

    return MatplotlibMotionPlotter()


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

    settings, seed = job.task.learner_as(PpoSettings), job.task.train.seed
    return RslRlPpo(settings, job.observations, job.action_dim, device=job.device, seed=seed)


def _ppo_policy(job: LearnerJob, state: Mapping[str, object]) -> Policy:
    from adapters.rsl_rl.actor_critic import load_policy

    return load_policy(state, job.observations, job.action_dim, device=job.device)


def _kernels(job: OffPolicyJob) -> Kernels | None:
    if not job.fused:
        return None
    from adapters.triton_kernels.kernels import TritonKernels

    return TritonKernels()


def _sac(job: OffPolicyJob) -> Learner:
    from domain.learning.sac import SacLearner

    return SacLearner(job.task.learner_as(SacCfg), job.plan, job.batches, job.execution, _kernels(job))


def _td3(job: OffPolicyJob) -> Learner:
    from domain.learning.td3 import Td3Learner

    return Td3Learner(job.task.learner_as(Td3Cfg), job.plan, job.batches, job.execution, _kernels(job))


def _flashsac(job: OffPolicyJob) -> Learner:
    from domain.learning.flashsac import FlashSacLearner

    return FlashSacLearner(job.task.learner_as(FlashSacCfg), job.plan, job.batches, job.execution, _kernels(job))


def _cuda_transfer(device: torch.device, graphs: bool) -> Transfer:
    from adapters.devices.cuda import CudaTransfer

    return CudaTransfer(device, graphs=graphs)


def _mps_transfer(device: torch.device, graphs: bool) -> Transfer:
    from adapters.devices.mps import MpsTransfer

    return MpsTransfer(device)


def _collector(job: CollectorJob) -> Collector:
    from adapters.collector.process import CollectorProcess

    return CollectorProcess(
        job.builder, job.slots, state=job.state, checksums=job.checksums, interrupted=job.interrupted
    )


def _trace_file(run: Run, header: TraceHeader) -> TraceSink:
    from adapters.metrics.trace_file import TraceFile

    return TraceFile(run.path / TRACE, header)


def _off_policy_policy(job: LearnerJob, state: Mapping[str, object]) -> Policy:
    from domain.learning.saved_actor import saved_policy

    learner, _ = job.task.off_policy
    return saved_policy(learner, state, job.observations, job.action_dim, job.device)


class Container(containers.DeclarativeContainer):
    """Providers by port; those that have a choice are aggregates, called with the choice's name first."""

    config = providers.Configuration(strict=True)
    """``runs_dir``: where run folders lie."""

    simulators = providers.Aggregate(mujoco=providers.Singleton(_mujoco), mjwarp=providers.Singleton(_mjwarp))
    engines = providers.Object({"mujoco": "mujoco", "mjwarp": "mujoco-warp"})
    """The distribution behind each simulator."""
    run_store = providers.Singleton(_run_store, config.runs_dir)
    checkpoint_store = providers.Singleton(_checkpoint_store)
    metrics_file = providers.Factory(_metrics_file)
    trace_source = providers.Factory(_trace_source)
    console_sink = providers.Factory(_console_sink)
    trackers = providers.Aggregate(none=providers.Factory(_no_tracker), tensorboard=providers.Factory(_tensorboard))
    motion_files = providers.Singleton(_motion_files)
    motion_plotter = providers.Singleton(_motion_plotter)
    kinematics = providers.Factory(_kinematics)
    """By the scene that holds the robot."""
    recorder = providers.Singleton(_recorder)
    choose_display = providers.Singleton(_choose_display)
    system = providers.Singleton(_system)
    learners = providers.Aggregate(ppo=providers.Factory(_ppo))
    off_policy_learners = providers.Aggregate(
        sac=providers.Factory(_sac), td3=providers.Factory(_td3), flashsac=providers.Factory(_flashsac)
    )
    transfers = providers.Aggregate(cuda=providers.Factory(_cuda_transfer), mps=providers.Factory(_mps_transfer))
    """By the type of the learner's device; there is none for a CPU."""
    collector = providers.Factory(_collector)
    trace_file = providers.Factory(_trace_file)
    policies = providers.Aggregate(
        ppo=providers.Factory(_ppo_policy),
        sac=providers.Factory(_off_policy_policy),
        td3=providers.Factory(_off_policy_policy),
        flashsac=providers.Factory(_off_policy_policy),
    )
