"""Staged writes to the simulation: events and commands stage, the environment commits once a step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from domain.entity import Entity
from domain.errors import SimulationError
from domain.managers.state import Stateful, put
from domain.physics import PhysicsBackend, StateWrite


class StateWrites(Stateful):
    """Full-width staging buffers and the rules of who may write which rows.

    A transaction is opened for a row mask. Inside it, rows are written by masks; values are full
    width and merged by the mask. Opening a second transaction, writing without one, writing rows of
    another mask in a command's transaction, mixing randomisation into it, and a second commit are
    errors. Rows outside the transaction's mask are left alone and counted in ``outside``. The staging
    buffers live for one step; what lives on is the model field tables.
    """

    def __init__(self, backend: PhysicsBackend) -> None:
        super().__init__()
        state = backend.state
        n, device = backend.num_envs, backend.device
        self._backend = backend
        self._qpos = torch.zeros_like(state.qpos)
        self._qvel = torch.zeros_like(state.qvel)
        self._default_qpos = torch.tensor([backend.index.default_qpos], dtype=torch.float32, device=device)
        self.reset = torch.zeros(n, dtype=torch.bool, device=device)
        self.written = torch.zeros(n, dtype=torch.bool, device=device)
        self.outside = self.keep_rows("outside", n, device=device, dtype=torch.bool)
        """Rows that a term tried to write outside its transaction since the last drain."""
        self._nominal: dict[str, Tensor] = {}
        self._tables: dict[str, Tensor] = {}
        self._changed: dict[str, Tensor] = {}
        self._touched: set[str] = set()
        """Fields that a term has written in this step, whatever its rows: known without looking at a mask."""
        self._domain: Tensor | None = None
        self._owner = ""
        self._command_mask: Tensor | None = None
        self._is_command = False
        self._committed = True
        self.staged = False
        """Whether any term has staged a write in this step; says nothing of rows."""

    def model_field(self, name: str) -> Tensor:
        """Return a field's nominal values, (1, ...), and make it writable per env; at construction only."""
        if name not in self._tables:
            self._tables[name] = self.keep(f"fields/{name}", self._backend.model_field(name))
            self._nominal[name] = self._tables[name][:1].clone()
            self._changed[name] = torch.zeros_like(self.written)
        return self._nominal[name]

    def begin_step(self) -> None:
        """Start a step's staging: everything staged equals the current state, nothing is written."""
        self._qpos.copy_(self._backend.state.qpos)
        self._qvel.copy_(self._backend.state.qvel)
        self.reset.zero_()
        self.written.zero_()
        for changed in self._changed.values():
            changed.zero_()
        self._touched.clear()
        self._committed = self.staged = False

    @contextmanager
    def transaction(self, rows: Tensor, owner: str, *, command: bool = False) -> Iterator[None]:
        """Allow writes to ``rows``, (num_envs,) bool, until the block ends.

        A command's transaction may write one row set, and no model fields.
        """
        if self._domain is not None:
            raise SimulationError(f"{owner} opens a transaction inside that of {self._owner}: close that one first")
        if self._committed:
            raise SimulationError(f"{owner} opens a transaction after the step's commit")
        self._domain, self._owner, self._is_command, self._command_mask = rows, owner, command, None
        try:
            yield
        finally:
            self._domain, self._owner, self._is_command = None, "", False

    def require_open(self, owner: str) -> None:
        """Raise SimulationError unless a transaction is open: for who must not begin what it could not write."""
        if self._domain is None:
            raise SimulationError(f"{owner} needs an open transaction: it writes to the simulation")

    def stage_reset(self) -> None:
        """Put all rows of the open transaction to the default state, at rest; the backend starts them anew."""
        rows = self._rows(None)
        self._merge(self._qpos, self._default_qpos, rows)
        self._merge(self._qvel, torch.zeros_like(self._qvel), rows)
        self.reset |= rows
        self.written |= rows

    def root_pose(self, entity: Entity) -> Tensor:
        """Return the staged root pose, (num_envs, 7): world position m, quaternion w first."""
        adr = entity.index.root_qpos_adr
        entity.require_floating("a root pose")
        return self._qpos[:, adr : adr + 7] if adr is not None else self._qpos[:, :0]

    def root_velocity(self, entity: Entity) -> Tensor:
        """Return the staged root velocity, (num_envs, 6): world linear m/s, body angular rad/s."""
        adr = entity.index.root_dof_adr
        entity.require_floating("a root velocity")
        return self._qvel[:, adr : adr + 6] if adr is not None else self._qvel[:, :0]

    def write_root_pose(self, entity: Entity, pose: Tensor, mask: Tensor) -> None:
        """Stage root poses, (num_envs, 7), for the rows under ``mask``."""
        self._write(self.root_pose(entity), pose, mask)

    def write_root_velocity(self, entity: Entity, velocity: Tensor, mask: Tensor) -> None:
        """Stage root velocities, (num_envs, 6), for the rows under ``mask``."""
        self._write(self.root_velocity(entity), velocity, mask)

    def write_joints(self, entity: Entity, pos: Tensor, vel: Tensor, mask: Tensor) -> None:
        """Stage joint positions and velocities, (num_envs, joints) in kinematic order, for the rows under ``mask``."""
        joints = len(entity.index.joints)
        q, v = entity.index.qpos_adr, entity.index.dof_adr
        self._write(self._qpos[:, q : q + joints], pos, mask)
        self._write(self._qvel[:, v : v + joints], vel, mask)

    def joints(self, entity: Entity) -> tuple[Tensor, Tensor]:
        """Return the staged joint positions and velocities, each (num_envs, joints)."""
        joints = len(entity.index.joints)
        q, v = entity.index.qpos_adr, entity.index.dof_adr
        return self._qpos[:, q : q + joints], self._qvel[:, v : v + joints]

    def write_field(
        self, name: str, values: Tensor, mask: Tensor, *, ids: Tensor | None = None, axis: int | None = None
    ) -> None:
        """Stage absolute values of a model field for the rows under ``mask``.

        ``values`` broadcast to the field's table, (num_envs, elements, ...), or to the part of it that
        ``axis``, one number of each element, and ``ids``, some elements, leave.
        """
        if self._is_command:
            raise SimulationError(f"{self._owner} writes model field '{name}' in a command's transaction: use an event")
        rows = self._rows(mask)
        table = self._tables[name] if axis is None else self._tables[name][..., axis]
        self._merge(table, values if ids is None else table.index_copy(1, ids, values), rows)
        self._changed[name] |= rows
        self._touched.add(name)

    def commit(self) -> None:
        """Hand everything staged to the backend, once a step."""
        if self._committed:
            raise SimulationError("a step commits its writes once, and this one is committed already")
        if self._domain is not None:
            raise SimulationError(f"commit inside the transaction of {self._owner}: close it first")
        self._committed = True
        if self.staged:
            fields = {name: changed for name, changed in self._changed.items() if name in self._touched}
            self._backend.commit(
                StateWrite(reset=self.reset, written=self.written, qpos=self._qpos, qvel=self._qvel, fields=fields)
            )

    def _write(self, view: Tensor, values: Tensor, mask: Tensor) -> None:
        if values.shape != view.shape:
            raise SimulationError(
                f"{self._owner} writes a state of shape {tuple(values.shape)}, expected {tuple(view.shape)}"
            )
        if self._is_command:
            if self._command_mask is not None and self._command_mask is not mask:
                raise SimulationError(f"{self._owner} changes its row set within one transaction: write one mask")
            self._command_mask = mask
        rows = self._rows(mask)
        self._merge(view, values, rows)
        self.written |= rows

    def _rows(self, mask: Tensor | None) -> Tensor:
        if self._domain is None:
            raise SimulationError("a write to the simulation needs an open transaction")
        self.staged = True
        if mask is None or mask is self._domain:
            return self._domain
        self.outside |= mask & ~self._domain
        return mask & self._domain

    @staticmethod
    def _merge(view: Tensor, values: Tensor, rows: Tensor) -> None:
        shape = (-1,) + (1,) * (view.dim() - 1)
        put(view, rows.view(shape), values)
