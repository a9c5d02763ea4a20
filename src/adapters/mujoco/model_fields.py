"""Model fields with a value per env: float32 tables outside, the engine's float64 values inside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adapters.mujoco.capabilities import CAPABILITIES
from adapters.mujoco.engine import batch as engine_batch
from domain.errors import CapabilityError, ConfigurationError, DataError, SimulationError, unknown_name

Float32s = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]

NEEDS_CONSTANTS = frozenset({"body_inertia", "body_ipos", "body_mass", "dof_armature"})
"""Fields from which the engine derives others (subtree masses, inverse weights) that must follow."""

_TABLE, _VALUES = "table.", "model."


@dataclass(frozen=True, kw_only=True)
class _Field:
    table: Tensor
    table_array: Float32s
    """The same memory as ``table``."""
    values: npt.NDArray[np.float64]
    """The engine's own, (num_envs, ...)."""
    nominal: npt.NDArray[np.float64]
    nominal32: Float32s


class ModelFields:
    """The fields of one batch that differ from env to env."""

    def __init__(self, batch: Any, num_envs: int) -> None:
        self._batch = batch
        self._num_envs = num_envs
        self._fields: dict[str, _Field] = {}

    def bind(self, name: str) -> Tensor:
        """Return the field's table, (num_envs, ...) float32, at the nominal values the first time."""
        if name not in CAPABILITIES.model_fields:
            raise CapabilityError(
                f"the mujoco backend cannot vary a model field per env: "
                f"{unknown_name('model field', name, CAPABILITIES.model_fields)}"
            )
        if name not in self._fields:
            nominal = np.array(self._nominal(name), dtype=np.float64)
            table = torch.empty((self._num_envs, *nominal.shape), dtype=torch.float32)
            array: Float32s = table.numpy()
            array[...] = nominal
            self._fields[name] = _Field(
                table=table,
                table_array=array,
                values=self._batch.expand(name),
                nominal=nominal,
                nominal32=nominal.astype(np.float32),
            )
        return self._fields[name].table

    def changed(self, masks: Mapping[str, Tensor]) -> dict[str, Rows]:
        """Return the rows of each field that are under its mask and can be written.

        Raises:
            ConfigurationError: A field was never bound.
            SimulationError: A table row is not finite.
        """
        changes: dict[str, Rows] = {}
        for name, mask in masks.items():
            rows = np.flatnonzero(mask.numpy())
            if rows.size == 0:
                continue
            if name not in self._fields:
                raise ConfigurationError(f"{unknown_name('bound model field', name, self._fields)}; call model_field")
            finite = np.isfinite(self._fields[name].table_array[rows].reshape(rows.size, -1)).all(axis=1)
            if not finite.all():
                raise SimulationError(f"model field '{name}' is not finite in envs {rows[~finite].tolist()}")
            changes[name] = rows
        return changes

    def write(self, changes: Mapping[str, Rows]) -> None:
        """Hand table rows to the engine and let the constants that depend on them follow.

        An element that equals the nominal value in float32 becomes exactly the nominal float64.
        """
        stale: list[Rows] = []
        for name, rows in changes.items():
            field = self._fields[name]
            wanted = field.table_array[rows]
            field.values[rows] = np.where(wanted == field.nominal32, field.nominal, wanted)
            if name in NEEDS_CONSTANTS:
                stale.append(rows)
        if stale:
            self._batch.set_const(np.unique(np.concatenate(stale)))

    def snapshot(self) -> dict[str, Tensor]:
        """Return copies of the tables and of every engine value that is not the same in all envs."""
        saved = {_TABLE + name: field.table.clone() for name, field in self._fields.items()}
        for name in self._expanded():
            values = self._batch.expanded(name)
            if name in self._fields or (values != self._nominal(name)).any():
                saved[_VALUES + name] = torch.from_numpy(values.copy())
        return saved

    def check(self, snapshot: Mapping[str, Tensor]) -> None:
        """Raise DataError unless ``restore`` can take the snapshot: same fields bound, same shapes."""
        bound = {key.removeprefix(_TABLE) for key in snapshot if key.startswith(_TABLE)}
        if bound != self._fields.keys():
            raise DataError(
                f"the snapshot holds the model fields {sorted(bound)}, this backend has bound {sorted(self._fields)}"
            )
        for name in self._saved_values(snapshot):
            if name not in engine_batch.MODEL_FIELDS:
                raise DataError(f"the snapshot holds '{name}', which is no model field of this engine")
            # Expanding is harmless: the engine fills in the nominal values, and restore needs it anyway.
            shape = tuple(self._batch.expand(name).shape)
            if tuple(snapshot[_VALUES + name].shape) != shape:
                raise DataError(
                    f"model field '{name}' is {tuple(snapshot[_VALUES + name].shape)} in the snapshot, {shape} here"
                )

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Bring back tables and engine values; derived constants that the snapshot lacks become nominal."""
        for name, field in self._fields.items():
            field.table.copy_(snapshot[_TABLE + name])
        saved = self._saved_values(snapshot)
        for name in {*self._expanded(), *saved}:
            self._batch.expand(name)[...] = snapshot[_VALUES + name].numpy() if name in saved else self._nominal(name)

    def _saved_values(self, snapshot: Mapping[str, Tensor]) -> set[str]:
        return {key.removeprefix(_VALUES) for key in snapshot if key.startswith(_VALUES)}

    def _expanded(self) -> Iterable[str]:
        return [name for name in sorted(engine_batch.MODEL_FIELDS) if self._batch.expanded(name) is not None]

    def _nominal(self, name: str) -> npt.NDArray[Any]:
        """Return the compiled model's own value; ``bvh_aabb`` cut to the bodies' part, as the batch has it."""
        model = self._batch.model
        value = np.asarray(getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name))
        values = self._batch.expanded(name)
        return value if values is None else value[: values.shape[1]] if value.ndim else value
