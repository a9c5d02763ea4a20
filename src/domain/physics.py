"""The physics port: what a simulator tells the environment and what it is told.

A backend owns the integration; the environment sees stable tensors that the backend refreshes in
place, and hands back staged writes that the backend commits once. Units are SI, quaternions are
(w, x, y, z); a free joint's qvel holds the linear velocity in the world frame and the angular
velocity in the body frame, as MuJoCo has it.
"""

import enum
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


class Execution(enum.Enum):
    """Who owns the simulation state."""

    HOST_BRIDGE = "host_bridge"
    """The CPU owns it; views are float32 copies refreshed by one packed read."""
    DEVICE_RESIDENT = "device_resident"
    """The accelerator owns it; views alias the simulator's own arrays."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can do; declared, never guessed from its name."""

    execution: Execution
    model_fields: frozenset[str]
    """MuJoCo model fields that may differ from env to env, e.g. ``body_mass``."""
    sensor_types: frozenset[str]
    """MJCF sensor elements that the backend fills, e.g. ``gyro``, ``contact``."""


@dataclass(frozen=True, kw_only=True)
class SensorSlot:
    """Where a named sensor lies in ``sensordata``."""

    name: str
    type: str
    """The MJCF element, e.g. ``framepos``."""
    adr: int
    dim: int


@dataclass(frozen=True, kw_only=True)
class EntityIndex:
    """Names and addresses of one entity, in kinematic order, as MuJoCo numbers them."""

    name: str
    joints: tuple[str, ...]
    """Hinge and slide joints; they are contiguous in qpos and qvel."""
    qpos_adr: int
    """First of the joints in qpos."""
    dof_adr: int
    """First of the joints in qvel."""
    joint_range: tuple[tuple[float, float], ...]
    """rad or m; infinite where unlimited."""
    default_joint_pos: tuple[float, ...]
    """From the default keyframe."""
    root_body: str
    root_qpos_adr: int | None
    """First of the free joint's 7 values in qpos; None for a fixed base."""
    root_dof_adr: int | None
    bodies: tuple[str, ...]
    geoms: tuple[str, ...]
    sites: tuple[str, ...]
    actuators: tuple[str, ...]
    """In control order, which may differ from joint order."""
    actuator_joint: tuple[str, ...]
    """The joint that each actuator drives."""


@dataclass(frozen=True, kw_only=True)
class ModelIndex:
    """Sizes, names and default state of a compiled model; every tuple is in MuJoCo's id order."""

    nq: int
    nv: int
    nu: int
    nsensordata: int
    timestep: float
    """Physics step, s."""
    bodies: tuple[str, ...]
    """Including ``world`` at 0."""
    joints: tuple[str, ...]
    """Including free joints."""
    geoms: tuple[str, ...]
    sites: tuple[str, ...]
    actuators: tuple[str, ...]
    sensors: Mapping[str, SensorSlot]
    default_qpos: tuple[float, ...]
    """The default keyframe, nq values."""
    entities: Mapping[str, EntityIndex]


@dataclass(frozen=True, kw_only=True)
class StateView:
    """The simulation state that terms read; float32, (num_envs, ...), storage never moves.

    After a step, qpos and qvel are current while sensordata is one physics substep old, as after
    ``mj_step``. After a commit, the written rows' sensordata is current.
    """

    qpos: Tensor
    qvel: Tensor
    sensordata: Tensor
    diverged: Tensor
    """(num_envs,) bool: the engine reset the row by itself, or its state is not finite."""


@dataclass(frozen=True, kw_only=True)
class StateWrite:
    """One step's staged writes, full width; only rows under the masks count."""

    reset: Tensor
    """(num_envs,) bool: rows that start anew; the backend clears all their internal state first."""
    written: Tensor
    """(num_envs,) bool: rows whose qpos and qvel are replaced; includes ``reset``."""
    qpos: Tensor
    qvel: Tensor
    fields: Mapping[str, Tensor] = field(default_factory=dict)
    """Model field name to the (num_envs,) bool mask of rows whose table rows changed."""


class PhysicsBackend(Protocol):
    """A batch of simulations of one model.

    The constructor of an implementation takes the model, the number of envs and its own settings;
    it fails before it allocates. All tensors live on ``device``.
    """

    @property
    def num_envs(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def index(self) -> ModelIndex: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def state(self) -> StateView: ...

    @property
    def control(self) -> Tensor:
        """(num_envs, nu) float32; the environment writes it before ``step``."""
        ...

    def model_field(self, name: str) -> Tensor:
        """Give a model field a value per env and return its table, (num_envs, ...) float32.

        The table starts at the nominal values and its storage never moves. Writes to it take effect
        at the next ``commit`` whose ``fields`` names it, for the rows under that mask. Call this
        before the first step.

        Raises:
            CapabilityError: The backend does not declare the field.
        """
        ...

    def step(self, substeps: int) -> None:
        """Hold ``control`` for the substeps, then refresh ``state`` by one read.

        Raises:
            SimulationError: ``control`` is not finite, or the engine failed.
        """
        ...

    def commit(self, write: StateWrite) -> None:
        """Apply staged writes, run the forward pass for written rows, refresh ``state`` once.

        Does nothing, not even a read, when no row is written and no field changed.
        """
        ...

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        """Say whether work masked by ``mask`` may be skipped.

        A host backend answers whether the mask is empty. A device backend answers False, as asking
        would stall the device, unless the caller ``may_wait``: outside a step. Both give the same numbers.
        """
        ...

    def notice(self) -> str | None:
        """Say what has gone wrong without an error, such as a buffer that was too small, and what to do; else None.

        Waits for the device: asked where numbers are logged anyway.
        """
        ...

    def recording(self) -> AbstractContextManager[None]:
        """Return a context for steps and commits that a CUDA graph records.

        A host backend's work is on no device and cannot be recorded.

        Raises:
            CapabilityError: This backend is a host's.
        """
        ...

    def snapshot(self) -> dict[str, Tensor]:
        """Return copies of the integration state, the views and the randomised model fields."""
        ...

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Continue bit for bit from ``snapshot``. Raises DataError if its shapes differ."""
        ...

    def close(self) -> None:
        """Release threads and memory; further calls are errors."""
        ...
