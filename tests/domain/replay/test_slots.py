"""Blocks of the shared slots: sizes, views, checksum."""

import torch

from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan, Slots, checksum

PLAN = SlotPlan(layout=RowLayout(obs=2, action=1, critic=3), num_envs=4)


def test_sizes_follow_from_environments_and_widths_alone() -> None:
    assert PLAN.sizes == {"observation": 4 * 3, "action": 4 * 1, "chunk0": 4 * 15, "chunk1": 4 * 15}
    assert PLAN.host_bytes == 4 * (12 + 4 + 60 + 60)


def test_allocated_blocks_have_these_sizes_and_hold_zeros() -> None:
    slots = Slots.allocate(PLAN, torch.device("cpu"))

    assert [len(block) for block in slots.blocks] == list(PLAN.sizes.values())
    assert all(block.dtype == torch.float32 and not block.any() for block in slots.blocks)


def test_views_cover_a_block_without_overlap() -> None:
    block = torch.zeros(PLAN.sizes["chunk0"])
    rows, flags = PLAN.chunk(block)

    rows.fill_(1.0)
    flags.fill_(2.0)

    assert rows.shape == (4, 14)
    assert flags.shape == (4,)
    assert rows.is_contiguous()
    assert block.sum() == 4 * 14 * 1.0 + 4 * 2.0


def test_observation_and_action_are_views_of_their_blocks() -> None:
    slots = Slots.allocate(PLAN, torch.device("cpu"))
    observed, began = PLAN.observation(slots.observation)

    observed[3, 1], began[0], PLAN.action(slots.action)[2, 0] = 5.0, 6.0, 7.0

    assert slots.observation[[7, 8]].tolist() == [5.0, 6.0]
    assert slots.action.tolist() == [0.0, 0.0, 7.0, 0.0]


def test_a_checksum_changes_with_the_order_with_a_sign_and_with_the_lowest_bit() -> None:
    block = torch.tensor([1.0, 2.0, 0.0])
    others = ([2.0, 1.0, 0.0], [1.0, 2.0, -0.0], [1.0 + 2**-23, 2.0, 0.0])

    sums = {int(checksum(values)) for values in (block, *map(torch.tensor, others))}

    assert len(sums) == 4
    assert int(checksum(block.clone())) in sums
