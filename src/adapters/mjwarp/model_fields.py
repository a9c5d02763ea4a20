"""Model fields with a value per world: tables that events write, and the engine's own arrays behind them.

Everything here is a fixed list of device operations: rows are chosen by masks, and no array moves once it is bound.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from adapters.mjwarp.capabilities import CAPABILITIES
from adapters.mjwarp.device import tensor_of
from adapters.mjwarp.engine import mujoco_warp as mjw
from adapters.mjwarp.engine import warp as wp
from domain.errors import CapabilityError, ConfigurationError, DataError, unknown_name

NEEDS_CONSTANTS = ("body_inertia", "body_ipos", "body_mass", "dof_armature")
"""Fields from which the engine derives others that must follow."""
DERIVED = ("actuator_acc0", "body_invweight0", "body_subtreemass", "dof_invweight0", "tendon_invweight0")
"""What is derived. Each needs rows of its own: ``set_const`` would else leave world 0's value in one shared row."""

_TABLE, _VALUES = "table.", "model."


class ModelFields:
    """The fields of one device model that differ from world to world.

    A row equal to the nominal values in all that constants depend on has the nominal constants, as compiled.
    """

    def __init__(self, model: Any, data: Any, num_envs: int) -> None:
        self._model = model
        self._data = data
        self._num_envs = num_envs
        self._device = tensor_of(data.qpos).device
        self._tables: dict[str, Tensor] = {}
        self._values: dict[str, Tensor] = {}
        """The engine's arrays, of bound fields and, where needed, derived ones."""
        self._nominal: dict[str, Tensor] = {}
        self._subtree: Tensor | None = None
        self._sealed = False

    def seal(self) -> None:
        """Refuse new fields from now on: a graph that is captured or a step that has run would not see them."""
        self._sealed = True

    def bind(self, name: str) -> Tensor:
        """Return the field's table, (num_envs, ...) float32, at the nominal values the first time.

        Raises:
            CapabilityError: The field is not declared.
            ConfigurationError: The first step has been.
        """
        if name not in CAPABILITIES.model_fields:
            raise CapabilityError(
                f"the mjwarp backend cannot vary a model field per env: "
                f"{unknown_name('model field', name, CAPABILITIES.model_fields)}"
            )
        if name not in self._tables:
            if self._sealed:
                raise ConfigurationError(
                    f"model field '{name}' is bound after the first step: call model_field before it"
                )
            self._tables[name] = self._expand(name).clone()
            if name in NEEDS_CONSTANTS and self._subtree is None:
                self._subtree = self._subtrees()
                for derived in DERIVED:
                    self._expand(derived)
        return self._tables[name]

    def apply(self, masks: Mapping[str, Tensor]) -> Tensor:
        """Hand masked table rows to the engine, let what depends on them follow, and return the refused rows.

        A row that is not finite is refused: it keeps its values.

        Raises:
            ConfigurationError: A field was never bound.
        """
        refused = torch.zeros(self._num_envs, dtype=torch.bool, device=self._device)
        stale: Tensor | None = None
        for name, mask in masks.items():
            if name not in self._tables:
                raise ConfigurationError(f"{unknown_name('bound model field', name, self._tables)}; call model_field")
            table, values = self._tables[name], self._values[name]
            finite = (table.abs() < math.inf).flatten(1).all(dim=1)
            refused |= mask & ~finite
            rows = mask & finite
            torch.where(_over(rows, table), table, values, out=values)
            if name in NEEDS_CONSTANTS:
                stale = rows if stale is None else stale | rows
        if stale is not None:
            self._derive(stale)
        return refused

    def snapshot(self) -> dict[str, Tensor]:
        """Return copies of the tables and of the engine's values."""
        saved = {_TABLE + name: table.clone() for name, table in self._tables.items()}
        return saved | {_VALUES + name: values.clone() for name, values in self._values.items()}

    def check(self, snapshot: Mapping[str, Tensor]) -> None:
        """Raise DataError unless ``restore`` can take the snapshot: same fields bound, same shapes."""
        bound = {key.removeprefix(_TABLE) for key in snapshot if key.startswith(_TABLE)}
        if bound != self._tables.keys():
            raise DataError(
                f"the snapshot holds the model fields {sorted(bound)}, this backend has bound {sorted(self._tables)}"
            )
        for name, live in self._live().items():
            if name not in snapshot:
                raise DataError(f"the snapshot lacks '{name}'")
            if snapshot[name].shape != live.shape:
                raise DataError(f"'{name}' is {tuple(snapshot[name].shape)} in the snapshot, {tuple(live.shape)} here")

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Bring back tables and engine values."""
        for name, live in self._live().items():
            live.copy_(snapshot[name])

    def _live(self) -> dict[str, Tensor]:
        tables = {_TABLE + name: table for name, table in self._tables.items()}
        return tables | {_VALUES + name: values for name, values in self._values.items()}

    def _expand(self, name: str) -> Tensor:
        """Give the engine's field rows of its own for each world and return them."""
        owner, field = (self._model.opt, name[4:]) if name.startswith("opt.") else (self._model, name)
        nominal = tensor_of(getattr(owner, field))
        array = wp.empty((self._num_envs, *getattr(owner, field).shape[1:]), dtype=getattr(owner, field).dtype)
        values = tensor_of(array)
        values.copy_(nominal.expand_as(values))
        setattr(owner, field, array)
        self._values[name] = values
        self._nominal[name] = nominal.clone()
        return values

    def _subtrees(self) -> Tensor:
        """Return (bodies, bodies) float32: 1 where the second is the first or hangs on it."""
        parents = tensor_of(self._model.body_parentid).tolist()
        matrix = torch.eye(len(parents))
        for body in range(len(parents) - 1, 0, -1):
            matrix[parents[body]] += matrix[body]
        return matrix.to(self._device)

    def _derive(self, stale: Tensor) -> None:
        """Recompute the derived constants of the rows under ``stale``; other rows keep every bit."""
        nominal_rows = torch.ones_like(stale)
        for name in NEEDS_CONSTANTS:
            if name in self._tables:
                nominal_rows &= (self._values[name] == self._nominal[name]).flatten(1).all(dim=1)
        kept = {name: self._values[name].clone() for name in DERIVED}
        if self._subtree is not None:
            mass = tensor_of(self._model.body_mass).expand(self._num_envs, -1)
            self._values["body_subtreemass"].copy_((mass.unsqueeze(1) * self._subtree).sum(dim=2))
        # Not the group FIXED: it would also recompute what all worlds share.
        mjw.set_const(self._model, self._data, groups=mjw.SetConstGroup.INERT0, restore=False)
        for name in DERIVED:
            values = self._values[name]
            wanted = torch.where(_over(nominal_rows, values), self._nominal[name], values)
            torch.where(_over(stale, values), wanted, kept[name], out=values)


def _over(rows: Tensor, values: Tensor) -> Tensor:
    """Return a mask of rows that broadcasts over ``values``."""
    return rows.view(-1, *(1,) * (values.dim() - 1))
