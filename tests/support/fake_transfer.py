"""A transfer over CPU tensors whose work ends late, in any order of the lanes, or never, by a seeded schedule."""

import random
import time
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from domain.errors import WorkerError
from domain.transfer import Lane

CPU = torch.device("cpu")


class FakeWork:
    """A Completion; nothing runs before it is asked often enough."""

    def __init__(self, transfer: "FakeTransfer", work: Callable[[], None], polls: int) -> None:
        self.polls = polls
        self.interval: tuple[float, float] | None = None
        self._transfer, self._work = transfer, work

    def run(self) -> None:
        begin = time.perf_counter()
        self._work()
        self.interval = (begin, time.perf_counter())

    def done(self) -> bool:
        self._transfer.advance()
        return self.interval is not None

    def span(self) -> tuple[float, float]:
        assert self.interval is not None, "asked for the time of work that has not ended"
        return self.interval


class FakeTransfer:
    """Two queues; each question advances a random one of them.

    Args:
        seed: Of the schedule.
        slowest: Greatest number of questions until a piece of work runs; 0 runs it at the first.
        fails_after: Pieces of work after which the device fails; None for never.
        hangs_after: Pieces of work after which nothing ends any more.
    """

    def __init__(
        self, seed: int = 0, *, slowest: int = 0, fails_after: int | None = None, hangs_after: int | None = None
    ) -> None:
        self.device = CPU
        self.registered: list[Tensor] = []
        self.closed = False
        self.submitted = 0
        self.run = 0
        self._random = random.Random(seed)
        self._slowest, self._fails_after, self._hangs_after = slowest, fails_after, hangs_after
        self._lanes: dict[Lane, deque[FakeWork]] = {lane: deque() for lane in Lane}
        self._copies = [0, 0]

    @property
    def copies(self) -> tuple[int, int]:
        return self._copies[0], self._copies[1]

    def register(self, block: Tensor) -> None:
        self.registered.append(block)

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        target.copy_(host)
        self._copies[0] += 1

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        host.copy_(source)
        self._copies[1] += 1

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        return work

    def submit(self, lane: Lane, work: Callable[[], None]) -> FakeWork:
        queued = FakeWork(self, work, self._random.randint(0, self._slowest))
        self._lanes[lane].append(queued)
        self.submitted += 1
        return queued

    def advance(self) -> None:
        """Let some lanes move on by one question each."""
        lanes = [lane for lane in self._lanes.values() if lane]
        for lane in self._random.sample(lanes, self._random.randint(1, len(lanes))) if lanes else []:
            if self._hangs_after is not None and self.run >= self._hangs_after:
                return
            if lane[0].polls > 0:
                lane[0].polls -= 1
                continue
            if self._fails_after is not None and self.run >= self._fails_after:
                raise WorkerError("the GPU failed: planted")
            self.run += 1
            lane.popleft().run()

    def close(self) -> None:
        self.closed = True
