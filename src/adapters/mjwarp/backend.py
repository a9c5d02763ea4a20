"""PhysicsBackend over MuJoCo Warp: the device owns the state, and the views are its own arrays."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from adapters.mjwarp.capabilities import CAPABILITIES
from adapters.mjwarp.capacities import Capacities
from adapters.mjwarp.compiled_model import compile_physics, put_on_device
from adapters.mjwarp.device import WarpDevice, tensor_of
from adapters.mjwarp.model_fields import ModelFields
from adapters.mjwarp.overflow import OverflowWatch
from adapters.mjwarp.probe import probe
from adapters.mjwarp.simulation import Simulation
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError, SimulationError
from domain.physics import Capabilities, ModelIndex, StateView, StateWrite

_LIMIT = 1e10
"""MuJoCo calls a state beyond this broken."""


class MjwarpBackend:
    """A batch of simulations of one scene on a GPU, or a few of them on Warp's CPU device.

    Every env starts in the default keyframe. ``step`` and ``commit`` are fixed lists of device operations, so Torch can
    record them: run each once eagerly, then record inside ``recording``. They cannot raise for a value. Rows
    are instead ``diverged`` after a step that found control not finite (it was taken as 0), a state or sensor not
    finite or beyond 1e10, constraints beyond the buffer, or a write since the step before not finite. A row whose
    state broke stands in the default keyframe afterwards, at rest.

    Args:
        scene: What to simulate; its visual elements are dropped.
        num_envs: Rows of every tensor.
        device: A CUDA device, or the CPU.
        capacities: Sizes of the contact and constraint buffers. None: a short probe run chooses them.

    Raises:
        ConfigurationError: ``num_envs`` cannot work, or scene text and index disagree.
        CapabilityError: The scene uses a feature that MJWarp lacks.
        DeviceError: Warp cannot use the device.
    """

    def __init__(
        self, scene: SceneModel, num_envs: int, *, device: torch.device, capacities: Capacities | None = None
    ) -> None:
        if num_envs < 1:
            raise ConfigurationError(f"num_envs is {num_envs}: at least 1 env is needed")
        self._device = WarpDevice(device)
        self._index = scene.index
        self._num_envs = num_envs
        self._open = True
        model = compile_physics(scene)
        with self._device.scope():
            device_model = put_on_device(model)
            if capacities is None:
                capacities = probe(model, device_model, scene.index, self.device)
            self.capacities = capacities
            """What the buffers hold."""
            self._simulation = Simulation(model, device_model, num_envs, capacities)
            self._fields = ModelFields(device_model, self._simulation.data, num_envs)
            self._overflow = OverflowWatch(self._simulation.data, capacities)
            self._make_views()
            self._simulation.refresh(torch.ones_like(self._state.diverged))

    def _make_views(self) -> None:
        data, n = self._simulation.data, self._num_envs
        diverged = torch.zeros(n, dtype=torch.bool, device=self.device)
        self._state = StateView(
            qpos=tensor_of(data.qpos),
            qvel=tensor_of(data.qvel),
            sensordata=tensor_of(data.sensordata),
            diverged=diverged,
        )
        self._control = tensor_of(data.ctrl)
        self._acceleration = tensor_of(data.qacc)
        self._default = torch.tensor([self._index.default_qpos], dtype=torch.float32, device=self.device)
        self._zero = torch.zeros((), device=self.device)
        self._bad_write = torch.zeros_like(diverged)
        """Rows of which a write was refused since the last step."""
        self._state.qpos.copy_(self._default.expand_as(self._state.qpos))

    @property
    def num_envs(self) -> int:
        return self._num_envs

    @property
    def device(self) -> torch.device:
        return self._device.torch

    @property
    def index(self) -> ModelIndex:
        return self._index

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def state(self) -> StateView:
        return self._state

    @property
    def control(self) -> Tensor:
        return self._control

    def model_field(self, name: str) -> Tensor:
        """Give a model field a value per env and return its table; see the port. Refused after the first step."""
        self._check_open()
        with self._device.scope():
            return self._fields.bind(name)

    def step(self, substeps: int) -> None:
        """Hold ``control`` for the substeps; the views then show the result, sensors one substep behind."""
        self._check_open()
        if substeps < 1:
            raise ConfigurationError(f"substeps is {substeps}: at least 1 is needed")
        with self._device.scope():
            self._fields.seal()
            finite = self._control.abs() < math.inf
            torch.where(finite, self._control, self._zero, out=self._control)
            self._overflow.begin()
            for left in reversed(range(substeps)):
                self._simulation.step(sensors=left == 0)
                self._overflow.count()
            self._contain(~finite.all(dim=1) | self._overflow.end() | self._bad_write)
            self._bad_write.zero_()

    def commit(self, write: StateWrite) -> None:
        """Apply staged writes and bring the sensors of written rows up to date; see the port.

        All rows take part in the forward pass, but only written ones keep what it gives. A written value that is not
        finite is refused: state becomes the default keyframe at rest, model fields stay, and the row is diverged after
        the next step.
        """
        self._check_open()
        state = self._state
        with self._device.scope():
            rows = write.written | write.reset
            self._simulation.reset(write.reset)
            state.diverged.logical_and_(~write.reset)
            finite = (torch.cat((write.qpos, write.qvel), dim=1).abs() < math.inf).all(dim=1)
            self._put(rows & finite, write.qpos, write.qvel)
            self._put(rows & ~finite, self._default, self._zero)
            self._bad_write |= (rows & ~finite) | self._fields.apply(write.fields)
            self._simulation.refresh(rows)

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        """Say whether ``mask`` is empty where the caller may wait; else False."""
        return may_wait and not bool(mask.any())

    def recording(self) -> AbstractContextManager[None]:
        """Return the context in which a graph that Torch records includes what Warp launches.

        Enter it inside ``torch.cuda.graph``, after ``step`` and ``commit`` have run once eagerly.

        Raises:
            CapabilityError: On the CPU device.
        """
        self._check_open()
        return self._device.recording()

    def notice(self) -> str | None:
        """Say which buffers were ever too small and what to give instead; None for none. Waits for the device."""
        self._check_open()
        return self._overflow.report()

    def snapshot(self) -> dict[str, Tensor]:
        """Return copies of the integration state, the views, the control and the model fields."""
        self._check_open()
        with self._device.scope():
            return {name: tensor.clone() for name, tensor in self._saved().items()} | self._fields.snapshot()

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Continue from a snapshot, on the CPU device bit for bit.

        Raises:
            DataError: Names or shapes differ from this backend's. Nothing has been changed then.
        """
        self._check_open()
        live = self._saved()
        for name, tensor in live.items():
            if name not in snapshot:
                raise DataError(f"the snapshot lacks '{name}'")
            saved = snapshot[name]
            if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
                raise DataError(
                    f"'{name}' is {tuple(saved.shape)} {saved.dtype} in the snapshot, "
                    f"{tuple(tensor.shape)} {tensor.dtype} here"
                )
        self._fields.check(snapshot)
        with self._device.scope():
            for name, tensor in live.items():
                tensor.copy_(snapshot[name])
            self._fields.restore(snapshot)

    def close(self) -> None:
        """Give up the engine's memory once nothing refers to its views; a second call does nothing."""
        if self._open:
            self._open = False
            del self._simulation, self._fields, self._overflow, self._acceleration

    def _check_open(self) -> None:
        if not self._open:
            raise SimulationError("this MJWarp backend is closed: build a new one")

    def _put(self, rows: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        chosen, state = rows.unsqueeze(1), self._state
        torch.where(chosen, qpos, state.qpos, out=state.qpos)
        torch.where(chosen, qvel, state.qvel, out=state.qvel)

    def _contain(self, also: Tensor) -> None:
        """Flag the rows that broke, and those of ``also``; broken ones must not keep what is not finite."""
        state = self._state
        everything = torch.cat((state.qpos, state.qvel, self._acceleration, state.sensordata), dim=1)
        # False for what is no number, too.
        broken = ~(everything.abs() < _LIMIT).all(dim=1)
        torch.logical_or(broken, also, out=state.diverged)
        self._simulation.reset(broken)
        self._put(broken, self._default, self._zero)
        torch.where(broken.unsqueeze(1), self._zero, state.sensordata, out=state.sensordata)

    def _saved(self) -> dict[str, Tensor]:
        """Return what a snapshot holds beside the model fields, as live tensors."""
        peaks = {f"peak.{name}": peak for name, peak in self._overflow.peaks.items()}
        return {
            **self._simulation.integration_state(),
            **peaks,
            "overflow": self._overflow.seen,
            "diverged": self._state.diverged,
            "bad_write": self._bad_write,
        }
