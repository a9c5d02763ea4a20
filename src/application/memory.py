"""Whether what off-policy training keeps for the whole run fits into memory, told before any of it exists."""

from dataclasses import dataclass

from application.tasks.task import OffPolicySettings
from domain.errors import DeviceError
from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan

_FLOAT = 4
_BATCHES = 2
"""Hot and cold."""
_ENDS = 2
"""Reward and discount stand beside the rows of a batch."""
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class MemoryNeeds:
    """Bytes that a run allocates at the start, and by which values; networks and their gradients come on top."""

    kind: str
    """The algorithm, as values are called."""
    ring: int
    batches: int
    slots: int
    """Once in shared memory, and once on the device."""

    @property
    def device(self) -> int:
        """Bytes on the learner's device."""
        return self.ring + self.batches + self.slots


@dataclass(frozen=True, kw_only=True)
class MemoryThere:
    """Free bytes; None where they are not known."""

    name: str
    """The learner's device."""
    device: int | None
    shared: int | None


def memory_needs(learner: OffPolicySettings, layout: RowLayout, num_envs: int) -> MemoryNeeds:
    """Return what a run with these settings allocates."""
    drawn = learner.updates_per_step * learner.batch_size
    return MemoryNeeds(
        kind=learner.kind,
        ring=learner.replay_rows * layout.width * _FLOAT,
        batches=_BATCHES * drawn * (layout.width + _ENDS) * _FLOAT,
        slots=SlotPlan(layout=layout, num_envs=num_envs).host_bytes,
    )


def check_memory(needs: MemoryNeeds, there: MemoryThere) -> None:
    """Refuse a run that does not fit.

    Raises:
        DeviceError: Says what is needed and what is free, in MiB, and which value to lower.
    """
    if there.device is not None and needs.device > there.device:
        largest = f"{needs.kind}.replay_rows" if needs.ring >= needs.batches else f"{needs.kind}.batch_size"
        raise DeviceError(
            f"the replay needs {_mib(needs.ring)} and its batches {_mib(needs.batches + needs.slots)} of memory on "
            f"{there.name}, where {_mib(there.device)} are free: lower {largest}, or take another --device"
        )
    if there.shared is not None and needs.slots > there.shared:
        raise DeviceError(
            f"the slots between collector and learner need {_mib(needs.slots)} of shared memory, of which "
            f"{_mib(there.shared)} are free: lower train.num_envs, or give more (docker run --shm-size=1g)"
        )


def _mib(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB"
