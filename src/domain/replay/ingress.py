"""The bounded ingress: which state each chunk slot is in, and when the committed pointer moves.

The learner's thread is the only one that changes a state. It grants a slot only while that is free, so a collector has
nothing that it could overwrite: backpressure is a grant that does not come.
"""

import enum
from dataclasses import dataclass, field

from domain.errors import WorkerError
from domain.replay.slots import CHUNKS, ChunkHeader


class SlotState(enum.Enum):
    """A slot's way, in this order and round again."""

    FREE = "free"
    FILLING = "filling"
    PUBLISHED = "published"
    COPYING = "copying"
    COMMITTED = "committed"


_ORDER = tuple(SlotState)


@dataclass(slots=True)
class _Slot:
    state: SlotState = SlotState.FREE
    tick: int = -1
    policy_version: int = -1
    header: ChunkHeader | None = None


@dataclass(slots=True)
class Ingress:
    """The states of all slots and how many rows were ever committed.

    Every call raises WorkerError for a slot in another state than the call needs: one side broke the protocol.

    Args:
        num_envs: Rows of a chunk.
    """

    num_envs: int
    committed: int = 0
    _sequence: int = 0
    _turn: int = 0
    _slots: tuple[_Slot, ...] = field(default_factory=lambda: tuple(_Slot() for _ in range(CHUNKS)))

    @property
    def depth(self) -> int:
        """Slots that are not free."""
        return sum(slot.state is not SlotState.FREE for slot in self._slots)

    def state(self, slot: int) -> SlotState:
        """Return the state of a slot."""
        return self._slots[slot].state

    def grant(self, tick: int, policy_version: int) -> int:
        """Give the next slot to the collector, for the chunk of ``tick``, and return it."""
        number = self._turn
        slot = self._move(number, SlotState.FILLING)
        slot.tick, slot.policy_version = tick, policy_version
        self._turn = (number + 1) % CHUNKS
        return number

    def publish(self, header: ChunkHeader) -> None:
        """Take a filled slot back; what its header says must be what was granted, and follow the last one."""
        slot = self._slots[header.slot]
        granted = (self._sequence, slot.tick, slot.policy_version, self.num_envs)
        said = (header.sequence, header.tick, header.policy_version, header.rows)
        if said != granted or not 0 <= header.valid <= header.rows:
            raise WorkerError(
                f"chunk slot {header.slot} holds (sequence, tick, policy version, rows) {said} with {header.valid} "
                f"valid rows, and {granted} were granted: collector and learner are out of step"
            )
        self._move(header.slot, SlotState.PUBLISHED).header = header
        self._sequence += 1

    def copy(self, slot: int) -> None:
        """Note that the copy of a published slot has been submitted."""
        self._move(slot, SlotState.COPYING)

    def commit(self, slot: int) -> int:
        """Move the committed pointer over a slot whose copy has completed; return the rows it moved by.

        A chunk without a valid row moves it by none.
        """
        header = self._move(slot, SlotState.COMMITTED).header
        rows = header.rows if header is not None and header.valid else 0
        self.committed += rows
        return rows

    def free(self, slot: int) -> None:
        """Let a committed slot be granted again."""
        self._move(slot, SlotState.FREE).header = None

    def _move(self, number: int, state: SlotState) -> _Slot:
        slot = self._slots[number]
        before = _ORDER[_ORDER.index(state) - 1]
        if slot.state is not before:
            raise WorkerError(
                f"chunk slot {number} is {slot.state.value}, not {before.value}, and cannot be {state.value}: "
                "collector and learner are out of step"
            )
        slot.state = state
        return slot
