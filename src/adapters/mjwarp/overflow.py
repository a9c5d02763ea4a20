"""Whether contacts or constraints ever exceeded their buffers, kept on the device until someone asks."""

from typing import Any

import torch
from torch import Tensor

from adapters.mjwarp.capacities import Capacities
from adapters.mjwarp.device import tensor_of
from adapters.mjwarp.engine import mujoco_warp as mjw

_KINDS = mjw.OverflowType
_ROWS = int(_KINDS.NEFC | _KINDS.NJMAX_NNZ)
"""One env's own constraint rows."""
_POOL = int(_KINDS.BROADPHASE | _KINDS.NARROWPHASE)
"""The contacts of all envs: the engine marks every env."""
_OTHER = int(_KINDS.CCD | _KINDS.HFIELD | _KINDS.CONTACT_MATCH | _KINDS.NVMAX | _KINDS.EPA_HORIZON | _KINDS.TACTILE)
_LASTING = _ROWS | _POOL | _OTHER
"""Not the solver's iteration limits: reaching those loses precision, not contacts."""


class OverflowWatch:
    """Collects a simulation's overflow bits and peak counts without waiting for the device."""

    def __init__(self, data: Any, capacities: Capacities) -> None:
        self._capacities = capacities
        self._num_envs = int(data.nworld)
        self._bits = tensor_of(data.overflow)
        self._counts = {
            "rows": tensor_of(data.nefc),
            "contacts": tensor_of(data.nacon),
            "pairs": tensor_of(data.ncollision),
        }
        self.seen = torch.zeros_like(self._bits)
        """(num_envs,) int32: bits that lasted from any step."""
        self.peaks = {name: torch.zeros_like(count) for name, count in self._counts.items()}
        """Constraint rows by env, and contacts and candidate pairs of all envs."""

    def begin(self) -> None:
        """Forget the engine's bits before a step."""
        self._bits.zero_()

    def count(self) -> None:
        """Take in the counts of a substep."""
        for name, count in self._counts.items():
            torch.maximum(self.peaks[name], count, out=self.peaks[name])

    def end(self) -> Tensor:
        """Keep a step's bits and return the envs, (num_envs,) bool, that lost constraints of their own."""
        self.seen |= self._bits & _LASTING
        return (self._bits & _ROWS) != 0

    def report(self) -> str | None:
        """Say what overflowed since construction and what to set instead; None where nothing did.

        Waits for the device: ask where numbers are logged anyway.
        """
        if not bool(self.seen.any()):
            return None
        rows, pool, other = (int(((self.seen & kind) != 0).sum()) for kind in (_ROWS, _POOL, _OTHER))
        needed = Capacities(
            contacts=max(self._capacities.contacts, self._per_env(max(int(self.peaks["contacts"]), self._pairs))),
            constraints=max(self._capacities.constraints, int(self.peaks["rows"].max())),
        )
        found = []
        if rows:
            found.append(f"{rows} of {self._num_envs} envs had more than {self._capacities.constraints} constraints")
        if pool:
            found.append(f"all envs together had more than {self._num_envs} x {self._capacities.contacts} contacts")
        if other:
            found.append(f"{other} of {self._num_envs} envs exceeded a collision buffer of fixed size")
        return (
            f"{' and '.join(found)}: what exceeds a buffer is dropped and the physics is wrong; set at least "
            f"scene.max_contacts={needed.contacts} and scene.max_constraints={needed.constraints}"
        )

    @property
    def _pairs(self) -> int:
        return int(self.peaks["pairs"])

    def _per_env(self, total: int) -> int:
        return -(-total // self._num_envs)
