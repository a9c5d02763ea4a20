"""Slot states: only the one order is possible, and backpressure is a grant that does not come."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from domain.errors import WorkerError
from domain.replay.ingress import Ingress, SlotState
from domain.replay.slots import ChunkHeader


def header(sequence: int = 0, *, slot: int = 0, tick: int = 0, version: int = 0, valid: int = 4) -> ChunkHeader:
    return ChunkHeader(
        sequence=sequence, tick=tick, slot=slot, policy_version=version, rows=4, valid=valid, checksum=None
    )


def through(ingress: Ingress, sequence: int, valid: int = 4) -> int:
    """Bring one chunk through all states and return the rows committed."""
    slot = ingress.grant(sequence, 0)
    ingress.publish(header(sequence, slot=slot, tick=sequence, valid=valid))
    ingress.copy(slot)
    rows = ingress.commit(slot)
    ingress.free(slot)
    return rows


def test_slots_take_turns_and_the_pointer_moves_by_whole_chunks() -> None:
    ingress = Ingress(4)
    assert [through(ingress, sequence) for sequence in range(5)] == [4] * 5
    assert ingress.committed == 20
    assert ingress.depth == 0


def test_states_follow_the_chunk() -> None:
    ingress = Ingress(4)
    assert ingress.state(0) is SlotState.FREE
    assert ingress.grant(0, 0) == 0
    assert ingress.state(0) is SlotState.FILLING
    ingress.publish(header())
    assert ingress.state(0) is SlotState.PUBLISHED
    assert ingress.grant(1, 0) == 1
    assert ingress.depth == 2
    ingress.copy(0)
    assert (ingress.state(0), ingress.committed) == (SlotState.COPYING, 0)
    ingress.commit(0)
    assert (ingress.state(0), ingress.committed) == (SlotState.COMMITTED, 4)
    ingress.free(0)
    assert ingress.state(0) is SlotState.FREE


def test_a_chunk_without_a_valid_row_moves_nothing() -> None:
    ingress = Ingress(4)
    assert through(ingress, 0, valid=0) == 0
    assert ingress.committed == 0
    assert through(ingress, 1, valid=1) == 4


def test_a_slot_that_is_being_copied_is_not_granted() -> None:
    ingress = Ingress(4)
    for tick in (0, 1):
        slot = ingress.grant(tick, 0)
        ingress.publish(header(tick, slot=slot, tick=tick))
    ingress.copy(0)
    with pytest.raises(WorkerError, match="slot 0 is copying, not free"):
        ingress.grant(2, 0)
    ingress.commit(0)
    with pytest.raises(WorkerError, match="slot 0 is committed, not free"):
        ingress.grant(2, 0)


@pytest.mark.parametrize(
    "early",
    [
        lambda ingress: ingress.publish(header()),
        lambda ingress: ingress.copy(0),
        lambda ingress: ingress.commit(0),
        lambda ingress: ingress.free(0),
    ],
)
def test_no_state_is_skipped(early: Callable[[Ingress], object]) -> None:
    ingress = Ingress(4)
    with pytest.raises(WorkerError, match="out of step"):
        early(ingress)
    assert ingress.state(0) is SlotState.FREE


@pytest.mark.parametrize(
    "wrong",
    [
        {"sequence": 1},
        {"tick": 1},
        {"policy_version": 8},
        {"rows": 3, "valid": 3},
        {"valid": 5},
        {"valid": -1},
    ],
)
def test_a_header_that_was_not_granted_is_refused(wrong: dict[str, int]) -> None:
    ingress = Ingress(4)
    ingress.grant(0, 7)
    right = header(version=7)
    with pytest.raises(WorkerError, match="out of step"):
        ingress.publish(replace(right, **wrong))
    ingress.publish(right)
