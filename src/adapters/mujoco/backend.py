"""PhysicsBackend over ``mujoco.batch.Batch``: the CPU owns the state, the views are float32 copies.

The engine keeps one float64 row per env. After each step that row's qpos and qvel and its sensors are
cast into one packed float32 tensor; nothing else crosses.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adapters.mujoco import affinity
from adapters.mujoco.capabilities import CAPABILITIES
from adapters.mujoco.compiled_model import compile_physics
from adapters.mujoco.engine import batch as engine_batch
from adapters.mujoco.engine import mujoco, route_log
from adapters.mujoco.model_fields import ModelFields
from application.robots.scene import SceneModel
from domain.errors import CapabilityError, ConfigurationError, DataError, SimulationError
from domain.physics import Capabilities, ModelIndex, StateView, StateWrite

_NO_STAGE = int(mujoco.mjtStage.mjSTAGE_NONE)
_CPU = torch.device("cpu")


class MujocoBackend:
    """A batch of simulations of one scene on native threads; results do not depend on their number.

    Every env starts in the default keyframe. A row is ``diverged`` after a step in which the engine
    warned about it: reset by itself (bad qpos, qvel, qacc), control zeroed (bad ctrl), singular inertia,
    contact or constraint memory full; or if its state is not finite.

    Args:
        scene: What to simulate; its visual elements are dropped.
        num_envs: Rows of every tensor.
        cpu_ids: Confine the process to these CPUs and pin the pool threads, one each; the number of
            threads is theirs. None: as many threads as the affinity mask has CPUs, not pinned.
        log_dir: Folder for the engine's ``mujoco.log``; None drops the engine's messages.

    Raises:
        ConfigurationError: ``num_envs`` or ``cpu_ids`` cannot work, or scene text and index disagree.
    """

    def __init__(
        self,
        scene: SceneModel,
        num_envs: int,
        *,
        cpu_ids: Sequence[int] | None = None,
        log_dir: Path | None = None,
    ) -> None:
        if num_envs < 1:
            raise ConfigurationError(f"num_envs is {num_envs}: at least 1 env is needed")
        pinned = None if cpu_ids is None else affinity.validated(cpu_ids)
        route_log(log_dir)
        model = compile_physics(scene)
        self._index = scene.index
        self._num_envs = num_envs
        self._open = True
        self._start_engine(model, pinned)
        self._make_views()
        self._fields = ModelFields(self._batch, num_envs)
        self._qpos[...] = np.array(scene.index.default_qpos, dtype=np.float64)
        self._engine(self._batch.forward)
        self._read()

    def _start_engine(self, model: Any, cpu_ids: tuple[int, ...] | None) -> None:
        """Build the batch and its threads, and bind every field once: a field bound later reads zero at first."""
        threads = affinity.thread_count(self._num_envs, cpu_ids)
        if cpu_ids is not None:
            affinity.restrict_process(cpu_ids)
        before = affinity.task_ids()
        self._batch: Any = engine_batch.Batch(model, self._num_envs, threads)
        pool = affinity.task_ids() - before
        if cpu_ids is not None:
            affinity.pin_pool(pool, cpu_ids)
        self._threads = (threading.get_native_id(), *sorted(pool))
        self._qpos: npt.NDArray[np.float64] = self._batch.bind("qpos")
        self._qvel: npt.NDArray[np.float64] = self._batch.bind("qvel")
        self._ctrl: npt.NDArray[np.float64] = self._batch.bind("ctrl")
        self._sensordata: npt.NDArray[np.float64] = self._batch.bind("sensordata")
        self._warnings: npt.NDArray[np.int32] = self._batch.warning[:, :, 1]

    def _make_views(self) -> None:
        """Allocate the float32 tensors, and NumPy arrays over the same memory."""
        ends = np.cumsum([self._index.nq, self._index.nv, self._index.nsensordata])
        packed = torch.zeros(self._num_envs, int(ends[-1]), dtype=torch.float32)
        qpos, qvel, sensordata = packed.tensor_split(ends[:2].tolist(), dim=1)
        self._packed = packed
        self._packed_array: npt.NDArray[np.float32] = packed.numpy()
        self._copies = (
            (qpos.numpy(), self._qpos),
            (qvel.numpy(), self._qvel),
            (sensordata.numpy(), self._sensordata),
        )
        diverged = torch.zeros(self._num_envs, dtype=torch.bool)
        self._diverged: npt.NDArray[np.bool_] = diverged.numpy()
        self._control = torch.zeros(self._num_envs, self._index.nu, dtype=torch.float32)
        self._control_array: npt.NDArray[np.float32] = self._control.numpy()
        self._state = StateView(qpos=qpos, qvel=qvel, sensordata=sensordata, diverged=diverged)

    @property
    def num_envs(self) -> int:
        return self._num_envs

    @property
    def device(self) -> torch.device:
        return _CPU

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
        """Give a model field a value per env and return its table; see the port."""
        self._check_open()
        return self._fields.bind(name)

    def step(self, substeps: int) -> None:
        """Hold ``control`` for the substeps, then refresh the views; sensors stay one substep behind."""
        self._check_open()
        if substeps < 1:
            raise ConfigurationError(f"substeps is {substeps}: at least 1 is needed")
        if not np.isfinite(self._control_array).all():
            raise self._bad_control()
        np.copyto(self._ctrl, self._control_array)
        self._engine(self._batch.step, None, substeps, _NO_STAGE)
        self._read()
        self._find_diverged()

    def commit(self, write: StateWrite) -> None:
        """Apply staged writes, run the forward pass for written rows, refresh the views; see the port.

        Raises:
            SimulationError: A written value is not finite. Nothing has been applied then.
        """
        self._check_open()
        changes = self._fields.changed(write.fields)
        rows = np.flatnonzero(torch.logical_or(write.written, write.reset).numpy())
        if rows.size == 0 and not changes:
            return
        qpos, qvel = self._staged("qpos", write.qpos, rows), self._staged("qvel", write.qvel, rows)
        reset = np.flatnonzero(write.reset.numpy())
        if reset.size:
            self._engine(self._batch.reset, reset, -1, _NO_STAGE)
            self._diverged[reset] = False
        self._qpos[rows] = qpos
        self._qvel[rows] = qvel
        self._engine(self._fields.write, changes)
        if rows.size:
            self._engine(self._batch.forward, rows)
            self._read()

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        """Say whether ``mask`` is empty."""
        return not bool(mask.numpy().any())

    def notice(self) -> None:
        """Nothing: what the engine warns about shows as diverged rows."""

    def recording(self) -> AbstractContextManager[None]:
        """Refuse: the state is on the CPU; see the port."""
        raise CapabilityError("the mujoco backend steps on the CPU: a CUDA graph cannot record it")

    def snapshot(self) -> dict[str, Tensor]:
        """Return copies of the engine's rows, the views, the control and the model fields."""
        self._check_open()
        return {name: torch.from_numpy(array.copy()) for name, array in self._saved().items()} | self._fields.snapshot()

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Continue bit for bit from a snapshot, also one of another backend with the same fields bound.

        Raises:
            DataError: Names, shapes or types differ from this backend's. Nothing has been changed then.
        """
        self._check_open()
        arrays = self._saved()
        for name, array in arrays.items():
            if name not in snapshot:
                raise DataError(f"the snapshot lacks '{name}'")
            saved = snapshot[name].numpy()
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise DataError(
                    f"'{name}' is {saved.shape} {saved.dtype} in the snapshot, {array.shape} {array.dtype} here"
                )
        self._fields.check(snapshot)
        for name, array in arrays.items():
            array[...] = snapshot[name].numpy()
        self._fields.restore(snapshot)

    def thread_affinity(self) -> dict[int, set[int]]:
        """Return the CPUs of each thread that steps, by thread id, the constructing thread first; empty off Linux."""
        self._check_open()
        return affinity.read_affinity(self._threads)

    def close(self) -> None:
        """End the threads and free the engine's memory; a second call does nothing."""
        if self._open:
            self._open = False
            # The threads live as long as any array over the batch's memory.
            del self._batch, self._fields, self._copies, self._qpos, self._qvel, self._ctrl
            del self._sensordata, self._warnings

    def _check_open(self) -> None:
        if not self._open:
            raise SimulationError("this MuJoCo backend is closed: build a new one")

    def _engine(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except (engine_batch.SimulationError, mujoco.FatalError) as error:
            raise SimulationError(str(error)) from error

    def _read(self) -> None:
        # A value beyond float32 becomes infinite, and its row diverged.
        with np.errstate(over="ignore"):
            for view, source in self._copies:
                np.copyto(view, source, casting="same_kind")

    def _find_diverged(self) -> None:
        """Flag rows that the engine warned about or that are not finite.

        The counters are set back to 0 because the engine does so too when it resets a row: a second
        reset of the same row would leave a counter at the 1 that a kept copy already has.
        """
        self._diverged[...] = False
        if self._warnings.any():
            self._diverged[...] = self._warnings.any(axis=1)
            self._warnings[...] = 0
        if not np.isfinite(self._packed_array).all():
            self._diverged |= ~np.isfinite(self._packed_array).all(axis=1)

    def _staged(self, name: str, values: Tensor, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        staged: npt.NDArray[np.float32] = values.numpy()[rows]
        finite = np.isfinite(staged).all(axis=1)
        if not finite.all():
            raise SimulationError(f"the {name} written to envs {rows[~finite].tolist()} is not finite")
        return staged

    def _bad_control(self) -> SimulationError:
        bad = ~np.isfinite(self._control_array)
        rows = np.flatnonzero(bad.any(axis=1)).tolist()
        names = [self._index.actuators[column] for column in np.flatnonzero(bad.any(axis=0))]
        return SimulationError(f"control is not finite in envs {rows}, actuators {names}")

    def _saved(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a snapshot holds beside the model fields, as live arrays."""
        return {
            "state": self._batch.state,
            "warning": self._batch.warning,
            "packed": self._packed_array,
            "diverged": self._diverged,
            "control": self._control_array,
        }
