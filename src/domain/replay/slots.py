"""What collector and learner share: an observation, an action and two transition chunks, each one flat block.

One block crosses to the device by one copy. The size follows from the environments alone, never from the replay's
capacity.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from domain.replay.layout import RowLayout

CHUNKS = 2
"""Slots of the ingress: one is filled while the other is copied."""
_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """Sizes of the blocks, float32, for ``num_envs`` environments."""

    layout: RowLayout
    num_envs: int

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers in each block, by name: ``observation``, ``action``, ``chunk0``, ``chunk1``."""
        n, layout = self.num_envs, self.layout
        chunk = n * (layout.width + 1)
        return {"observation": n * (layout.obs + 1), "action": n * layout.action} | {
            f"chunk{slot}": chunk for slot in range(CHUNKS)
        }

    @property
    def host_bytes(self) -> int:
        """Shared memory of all blocks."""
        return _BYTES * sum(self.sizes.values())

    def observation(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """Return views of a block: observations, (num_envs, obs), and 1 where an episode begins, (num_envs,)."""
        return self._split(block, self.layout.obs)

    def action(self, block: Tensor) -> Tensor:
        """Return the view (num_envs, action) of a block."""
        return block.view(self.num_envs, self.layout.action)

    def chunk(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """Return views of a block: packed transitions, (num_envs, width), and 1 where one is valid, (num_envs,)."""
        return self._split(block, self.layout.width)

    def _split(self, block: Tensor, width: int) -> tuple[Tensor, Tensor]:
        rows = self.num_envs * width
        return block[:rows].view(self.num_envs, width), block[rows:]


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The blocks themselves, on one device."""

    plan: SlotPlan
    observation: Tensor
    action: Tensor
    chunks: tuple[Tensor, Tensor]

    @classmethod
    def allocate(cls, plan: SlotPlan, device: torch.device) -> "Slots":
        """Return blocks of zeros on ``device``."""
        blocks = {name: torch.zeros(size, device=device) for name, size in plan.sizes.items()}
        return cls(
            plan=plan,
            observation=blocks["observation"],
            action=blocks["action"],
            chunks=(blocks["chunk0"], blocks["chunk1"]),
        )

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """All blocks."""
        return self.observation, self.action, *self.chunks


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkHeader:
    """What a published chunk says of itself."""

    sequence: int
    """Counts published chunks from 0."""
    tick: int
    """In which its transitions were collected."""
    slot: int
    policy_version: int
    """Of the actor that chose every action in it."""
    rows: int
    """Environments."""
    valid: int
    """Rows that did not break."""
    checksum: int | None
    """``checksum`` of the block, where the run asks for it."""


def checksum(block: Tensor) -> Tensor:
    """Return a 0-dim int64 that changes with any bit of a float32 block and with the order of its numbers."""
    words = block.view(torch.int32).to(torch.int64)
    place = torch.arange(1, len(words) + 1, device=block.device)
    return (words * (2 * place + 1)).sum()
