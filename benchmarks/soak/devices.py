"""The transfers of a soak: one over CPU tensors whose work ends late, in any order, and one that fails on purpose."""

import random
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum

import torch
from torch import Tensor

from domain.errors import WorkerError
from domain.transfer import Completion, Lane, Transfer

LATE_S = 0.2
_CYCLES_PER_S = 1.7e9  # of a GPU, about


class _Queued:
    """A Completion; its work runs once it has been asked often enough."""

    def __init__(self, transfer: "QueuedTransfer", work: Callable[[], None], polls: int) -> None:
        self.work, self.polls = work, polls
        self.interval: tuple[float, float] | None = None
        self._transfer = transfer

    def done(self) -> bool:
        """Let the device go on by a question."""
        self._transfer.advance()
        return self.interval is not None

    def span(self) -> tuple[float, float]:
        """Return when the work ran."""
        if self.interval is None:
            raise WorkerError("asked for the time of work that has not ended")
        return self.interval


class QueuedTransfer:
    """Two queues on the CPU; each question advances a random one.

    Args:
        seed: Of the schedule.
        slowest: Greatest number of questions until a piece of work runs.
    """

    def __init__(self, seed: int, slowest: int) -> None:
        self.device = torch.device("cpu")
        self._random = random.Random(seed)
        self._slowest = slowest
        self._lanes: dict[Lane, deque[_Queued]] = {lane: deque() for lane in Lane}
        self._copies = [0, 0]

    @property
    def copies(self) -> tuple[int, int]:
        """Copies in and out so far."""
        return self._copies[0], self._copies[1]

    def register(self, block: Tensor) -> None:
        """Nothing has to be locked."""

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        """Copy at once, as part of queued work."""
        target.copy_(host)
        self._copies[0] += 1

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        """Copy at once, as part of queued work."""
        host.copy_(source)
        self._copies[1] += 1

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        """Repeat ``work`` itself."""
        return work

    def submit(self, lane: Lane, work: Callable[[], None]) -> _Queued:
        """Queue ``work``."""
        queued = _Queued(self, work, self._random.randint(0, self._slowest))
        self._lanes[lane].append(queued)
        return queued

    def advance(self) -> None:
        """Let one lane or both go on by one question."""
        lanes = [lane for lane in self._lanes.values() if lane]
        for lane in self._random.sample(lanes, self._random.randint(1, len(lanes))) if lanes else []:
            if lane[0].polls > 0:
                lane[0].polls -= 1
                continue
            queued = lane.popleft()
            begin = time.perf_counter()
            queued.work()
            queued.interval = (begin, time.perf_counter())

    def close(self) -> None:
        """Forget what was queued."""
        for lane in self._lanes.values():
            lane.clear()


class Mishap(StrEnum):
    """What goes wrong on the device, once."""

    NONE = "none"
    FAILURE = "failure"
    HANG = "hang"
    LATE = "late"
    DAMAGE = "damage"


class _Planted:
    """A Completion that fails, never ends, or ends late."""

    def __init__(self, inner: Completion, mishap: Mishap) -> None:
        self._inner, self._mishap = inner, mishap
        self._until = time.perf_counter() + LATE_S

    def done(self) -> bool:
        """Do the mishap."""
        if self._mishap is Mishap.FAILURE:
            raise WorkerError("the GPU failed: planted")
        if self._mishap is Mishap.HANG or time.perf_counter() < self._until:
            return False
        return self._inner.done()

    def span(self) -> tuple[float, float]:
        """Return when the work ran."""
        return self._inner.span()


class FaultyTransfer:
    """Another transfer, with one mishap once it is armed.

    Args:
        inner: Does the work.
        chunk: Numbers in a chunk block, by which its copies are known.
    """

    def __init__(self, inner: Transfer, chunk: int) -> None:
        self.device = inner.device
        self._inner, self._chunk = inner, chunk
        self._mishap = Mishap.NONE
        self._skip = 0

    @property
    def copies(self) -> tuple[int, int]:
        """Copies in and out so far."""
        return self._inner.copies

    def arm(self, mishap: Mishap, skip: int) -> None:
        """Let the mishap happen to the piece of work after the next ``skip`` ones that it can happen to."""
        self._mishap, self._skip = mishap, skip

    def register(self, block: Tensor) -> None:
        """Pass on."""
        self._inner.register(block)

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        """Copy; damage flips one bit of a published chunk before."""
        if host.numel() == self._chunk and self._due(Mishap.DAMAGE):
            words = host.view(torch.int32)
            words[len(words) // 2] ^= 1 << 3
        self._inner.copy_in(host, target)

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        """Pass on."""
        self._inner.copy_out(source, host)

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        """Pass on."""
        return self._inner.record(work, generator)

    def submit(self, lane: Lane, work: Callable[[], None]) -> Completion:
        """Submit; failure and hang happen to any work, lateness to that of the side lane."""
        if self._due(Mishap.FAILURE):
            return _Planted(self._inner.submit(lane, work), Mishap.FAILURE)
        if self._due(Mishap.HANG):
            return _Planted(self._inner.submit(lane, work), Mishap.HANG)
        if lane is Lane.SIDE and self._due(Mishap.LATE):
            if self.device.type != "cuda":
                return _Planted(self._inner.submit(lane, work), Mishap.LATE)
            return self._inner.submit(lane, lambda: _late(work))
        return self._inner.submit(lane, work)

    def close(self) -> None:
        """Pass on."""
        self._inner.close()

    def _due(self, mishap: Mishap) -> bool:
        if self._mishap is not mishap:
            return False
        self._skip -= 1
        if self._skip >= 0:
            return False
        self._mishap = Mishap.NONE
        return True


def _late(work: Callable[[], None]) -> None:
    torch.cuda._sleep(int(LATE_S * _CYCLES_PER_S))
    work()
