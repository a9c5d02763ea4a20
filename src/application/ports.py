"""Ports of everything outside that the use cases need; adapters implement them, entry points choose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from application.robots.scene import SceneModel
from application.settings import SceneSettings
from domain.env import StepResult
from domain.physics import Capabilities, PhysicsBackend
from domain.replay.slots import ChunkHeader, Slots
from domain.timing import TickTrace

Payload = dict[str, object]
"""What a checkpoint holds: tensors, numbers, text, and lists and dicts of them; no other objects."""
Observations = Mapping[str, Tensor]
Policy = Callable[[Observations], Tensor]
"""Maps observation groups, (num_envs, width) each, to the deterministic action, (num_envs, action dim)."""


@dataclass(frozen=True, kw_only=True)
class SimulationJob:
    """What a batch of simulations is built for."""

    scene: SceneModel
    num_envs: int
    """Rows of every tensor."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where a simulator that owns the state on a device has it; one on the host does not look at it."""
    cpu_ids: Sequence[int] | None = None
    """CPUs of a simulator that steps on the host; None leaves the choice to it."""
    log_dir: Path | None = None
    """Folder for the engine's messages; None drops them."""
    settings: SceneSettings = field(default_factory=SceneSettings)
    """Sizes of buffers, for a simulator whose buffers do not grow."""


class Simulator(Protocol):
    """A physics engine that can be chosen by ``--sim``."""

    @property
    def capabilities(self) -> Capabilities:
        """Known without loading the engine."""
        ...

    def build(self, job: SimulationJob) -> PhysicsBackend:
        """Return a batch of simulations.

        Raises:
            ConfigurationError: A setting that the simulator cannot follow, or it is not installed.
        """
        ...

    def log_to(self, folder: Path) -> None:
        """Send the engine's own messages to a file in ``folder`` from now on."""
        ...


class OnPolicyLearner(Protocol):
    """Collects rollouts and learns from them; owns actor, critic, optimiser and its random stream."""

    @property
    def rollout_steps(self) -> int:
        """Env steps between two updates."""
        ...

    @property
    def world_size(self) -> int:
        """How many processes learn together, each with environments of its own; 1 but for several ranks."""
        ...

    @property
    def writes_run(self) -> bool:
        """Whether this process writes the run folder: rank 0 only, where several ranks learn."""
        ...

    def act(self, observations: Observations) -> Tensor:
        """Return a sampled action, (num_envs, action dim), on the env's device, and remember the inputs."""
        ...

    def record(self, result: StepResult) -> None:
        """Store the transition begun by the last ``act``.

        The stored reward is r + gamma V(final critic observation) where truncated and not terminated.
        """
        ...

    def update(self, observations: Observations) -> dict[str, float]:
        """Learn from the full rollout that ended in ``observations`` and return scalars to log."""
        ...

    def policy(self) -> Policy:
        """Return the deterministic policy with the present weights."""
        ...

    def state_dict(self) -> Payload:
        """Return networks, optimiser, normalisers, learning rate and random state."""
        ...

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from ``state``. Raises DataError saying what differs where it does not fit."""
        ...


@dataclass(frozen=True, kw_only=True)
class EnvReport:
    """What an environment has logged since its last report, as plain numbers."""

    metrics: Mapping[str, float]
    """Episodes, reward terms, terminations, metrics and curricula; without what no finished episode gave a value."""
    faults: Mapping[str, tuple[int, int, int]]
    """By source that broke rows: how many env steps, and env and step of the last."""
    notice: str | None = None
    """What the engine wants to be known."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Lets the collector do one tick: the action lies in its slot, and ``slot`` is free to be filled."""

    tick: int
    slot: int
    policy_version: int
    report: bool = False
    """Whether an EnvReport is wanted after the tick."""
    state: bool = False
    """Whether the environment's state is wanted after the tick."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A finished tick of the collector: its chunk and the next observation lie in their slots."""

    header: ChunkHeader
    began: float
    """When the action was seen, s, ``time.perf_counter``."""
    ended: float
    """When chunk and observation were there."""
    report: EnvReport | None
    state: Mapping[str, Tensor] | None


class Collector(Protocol):
    """Steps the environment in a process of its own. Every call raises WorkerError where that process has failed.

    One thread uses it; after an error only ``close`` is left.
    """

    @property
    def slots(self) -> Slots:
        """Shared host memory."""
        ...

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the environment is built and reset and its first observation is there."""
        ...

    def grant(self, grant: Grant) -> None:
        """Hand over an action and a free chunk slot."""
        ...

    def wait(self, timeout_s: float) -> Published:
        """Wait for the tick that was granted last."""
        ...

    def close(self) -> None:
        """End the process, by force after a short while, and release the slots; never raises."""
        ...


class CheckpointStore(Protocol):
    """Checkpoint files: written aside, flushed and renamed; loaded without executing code."""

    def save(self, path: Path, payload: Payload) -> None:
        """Write ``payload`` so that ``path`` is always whole. Raises OutputError where it cannot."""
        ...

    def load(self, path: Path, device: torch.device) -> Payload:
        """Return a payload with tensors on ``device``. Raises DataError for a missing or damaged file."""
        ...


class MetricSink(Protocol):
    """Takes one row of scalars an iteration."""

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Record the scalars of a finished iteration, counted from 1."""
        ...

    def close(self) -> None:
        """Flush and finish."""
        ...


class TraceSink(Protocol):
    """Takes the timing trace of an off-policy run."""

    def write(self, tick: TickTrace) -> None:
        """Record a finished tick."""
        ...

    def close(self) -> None:
        """Flush and finish."""
        ...


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder, ``runs/<task>/<algo>/<time>-<name>``."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        """Where videos lie."""
        return self.path / "videos"


class RunStore(Protocol):
    """Run folders and what is written into them once."""

    def check(self, name: str) -> None:
        """Refuse what ``create`` would refuse, and create nothing. Raises ConfigurationError or DataError."""
        ...

    def create(self, task: str, algo: str, name: str) -> Run:
        """Make a new run folder. Raises DataError where it cannot be written."""
        ...

    def claim(self, run: Run) -> AbstractContextManager[None]:
        """Keep other processes from training the run meanwhile. Raises DataError where another one does."""
        ...

    def find(self, reference: str) -> Run:
        """Return the run at a path, or the newest whose path ends so. Raises DataError for none."""
        ...

    def runs(self) -> Iterator[Run]:
        """Yield all runs, newest first."""
        ...

    def write_config(self, run: Run, values: Mapping[str, object]) -> None:
        """Save the resolved configuration as ``config.yaml``."""
        ...

    def read_config(self, run: Run) -> dict[str, object]:
        """Return the saved configuration as plain data. Raises DataError where it is missing or unreadable."""
        ...

    def write_environment(self, run: Run, record: Mapping[str, object]) -> None:
        """Save versions, device, git state and determinism level as ``environment.json``."""
        ...

    def last_metrics(self, run: Run) -> dict[str, float]:
        """Return the last row of the run's metrics; empty where there is none."""
        ...

    def newest_checkpoint(self, run: Run) -> Path:
        """Return the checkpoint of the highest iteration. Raises DataError for none."""
        ...


class Recorder(Protocol):
    """Turns recorded states into pictures."""

    def record(
        self,
        scene: SceneModel,
        qpos: Tensor,
        fps: float,
        *,
        video: Path | None,
        still: Path | None,
        size: tuple[int, int] = (640, 480),
    ) -> None:
        """Render qpos, (frames, nq), to an MP4 and a PNG. Raises ConfigurationError where no display library works."""
        ...
