"""Bytes of a run that can be counted by hand, and what is refused."""

from dataclasses import replace

import pytest

from application.memory import MemoryNeeds, MemoryThere, check_memory, memory_needs
from domain.errors import DeviceError
from domain.learning.config import SacCfg
from domain.replay.layout import RowLayout

MIB = 1 << 20
NEEDS = MemoryNeeds(kind="sac", ring=100 * MIB, batches=20 * MIB, slots=2 * MIB)
ROOMY = MemoryThere(name="cuda:0", device=1000 * MIB, shared=64 * MIB)


def test_ring_batches_and_slots_are_counted() -> None:
    cfg = SacCfg(batch_size=10, updates_per_step=4, replay_rows=1000, learning_start_rows=10)
    layout = RowLayout(obs=3, action=2, critic=4)

    needs = memory_needs(cfg, layout, num_envs=8)

    # A row: critic 4 + action 2 + obs 3, and critic 4 + obs 3 + reward + terminated + truncated.
    assert layout.width == 19
    assert needs.ring == 1000 * 19 * 4
    assert needs.batches == 2 * (4 * 10) * (19 + 2) * 4
    # Observation and mark of an episode's start; action; two chunks of rows and marks of validity.
    assert needs.slots == 4 * 8 * ((3 + 1) + 2 + 2 * (19 + 1))
    assert needs.device == needs.ring + needs.batches + needs.slots


@pytest.mark.parametrize(
    "there",
    [
        ROOMY,
        MemoryThere(name="cuda:0", device=122 * MIB, shared=2 * MIB),
        MemoryThere(name="mps", device=None, shared=None),
    ],
)
def test_what_fits_or_is_not_known_passes(there: MemoryThere) -> None:
    check_memory(NEEDS, there)


@pytest.mark.parametrize(
    ("needs", "there", "message"),
    [
        (
            NEEDS,
            replace(ROOMY, device=50 * MIB),
            r"replay needs 100.0 MiB and its batches 22.0 MiB of memory on cuda:0, where 50.0 MiB are free: "
            "lower sac.replay_rows, or take another --device",
        ),
        (replace(NEEDS, ring=MIB), replace(ROOMY, device=22 * MIB), "lower sac.batch_size"),
        (
            NEEDS,
            replace(ROOMY, shared=MIB),
            "need 2.0 MiB of shared memory, of which 1.0 MiB are free: lower train.num_envs, or give more",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_bytes_and_the_value_to_lower(
    needs: MemoryNeeds, there: MemoryThere, message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        check_memory(needs, there)
