"""What ring and batches must hold, told from the world and the actions alone, by other code than the product's."""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.soak.world import World


@dataclass(frozen=True, kw_only=True)
class Samples:
    """A batch as it should be; rows of (batch,)."""

    rows: Tensor
    reward: Tensor
    discount: Tensor


class Journey:
    """The rows of a world, step by step.

    Args:
        world: Where they come from.
        first: The first observation, (num_envs, 3).
    """

    def __init__(self, world: World, first: Tensor) -> None:
        self._world = world
        self._step = int(first[0, 1])
        self._age = first[:, 2].clone()
        self._began = torch.ones(world.num_envs)

    @property
    def seen(self) -> Tensor:
        """Return what the next action answers, (num_envs, 3)."""
        return _seen(self._world, self._step, self._age)

    @property
    def began(self) -> Tensor:
        """Return 1 where an episode begins with it, (num_envs,)."""
        return self._began

    def next(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step with (num_envs, 1) actions; return packed rows, and which are valid, (num_envs,) bool."""
        world, obs = self._world, self.seen
        self._step += 1
        age = self._age + 1
        valid = ~torch.stack(world.broken(self._step)).any(dim=0)
        terminated, truncated = world.fails(self._step) | ~valid, (age >= world.episode_steps) & valid
        after = _seen(world, self._step, age)
        ends = torch.stack((world.reward(self._step), terminated.float(), truncated.float()), dim=1)
        # Written out column by column, as the layout is documented.
        if world.critic:
            parts = (obs[:, [1, 0]], action, obs, after[:, [1, 0]], after, ends)
        else:
            parts = (obs, action, after, ends)  # type: ignore[assignment]
        done = terminated | truncated
        self._age = torch.where(done, 0.0, age)
        self._began = done.float()
        return torch.cat(parts, dim=1), valid


def _seen(world: World, step: int, age: Tensor) -> Tensor:
    return torch.stack((world.envs.float(), torch.full_like(age, step), age), dim=1)


class ExpectedRing:
    """A ring on the host, filled row by row.

    Args:
        world: Gives the sizes.
        capacity: Rows.
    """

    def __init__(self, world: World, capacity: int) -> None:
        self._envs, self._layout = world.num_envs, world.layout
        self.rows = torch.zeros(capacity, self._layout.width)
        self.committed = 0

    @property
    def size(self) -> int:
        """Return how many rows are there."""
        return min(self.committed, len(self.rows))

    def add(self, rows: Tensor, valid: Tensor) -> None:
        """Write a chunk; a broken row's place gets a copy of a valid one, and no sample runs across it."""
        capacity, kept = len(self.rows), valid.tolist()
        if self.committed:
            for env in (env for env in range(self._envs) if not kept[env]):
                self.rows[(self.committed - self._envs + env) % capacity, -1] = 1.0
        if not any(kept):
            return
        donor = kept.index(True)
        for env in range(self._envs):
            donor = env if kept[env] else donor
            place = (self.committed + env) % capacity
            self.rows[place] = rows[donor]
            if not kept[env]:
                self.rows[place, -1] = 1.0
        self.committed += self._envs

    def wrong(self, rows: Tensor) -> int:
        """Return how many of the rows that are there differ from ``rows``, (capacity, width)."""
        return int((rows[: self.size] != self.rows[: self.size]).any(dim=1).sum())

    def samples(self, index: Tensor, *, n_step: int, gamma: float) -> Samples:
        """Return what a batch of the samples that start at the rows ``index`` has to hold."""
        capacity = len(self.rows)
        number = self.committed - 1 - (self.committed - 1 - index) % capacity
        last, reward, discount = index.clone(), torch.zeros(len(index)), torch.ones(len(index))
        going = torch.ones(len(index), dtype=torch.bool)
        for k in range(n_step):
            there = going & (number + k * self._envs < self.committed)
            place = (number + k * self._envs) % capacity
            row = self.rows[place]
            last = torch.where(there, place, last)
            reward = torch.where(there, reward + gamma**k * row[:, -3], reward)
            discount = torch.where(there, gamma ** (k + 1) * (1.0 - row[:, -2]), discount)
            going = there & (row[:, -2] + row[:, -1] == 0)
        head = self._layout.successor
        rows = torch.cat((self.rows[index, :head], self.rows[last, head:]), dim=1)
        return Samples(rows=rows, reward=reward, discount=discount)
