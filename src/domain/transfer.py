"""The transfer port: how work and copies reach the learner's device, in lanes, and how one sees that they are done.

Work of one lane runs in the order of its submission; the lanes run beside each other. Who submits on one lane what
needs a result of the other waits for that result's completion first.
"""

import enum
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class Lane(enum.Enum):
    """Where submitted work runs."""

    LEARNER = "learner"
    """Inference and updates."""
    SIDE = "side"
    """Chunks into the ring, and batches out of it."""
    ENV = "env"
    """Steps of an environment that lives on the device itself."""


class Completion(Protocol):
    """One submitted piece of work. Errors of the device surface in either call as WorkerError."""

    def done(self) -> bool:
        """Tell whether the work has ended, without waiting."""
        ...

    def span(self) -> tuple[float, float]:
        """Return begin and end of work that is done, s, on the clock of ``time.perf_counter``."""
        ...


class Transfer(Protocol):
    """The learner's device as the off-policy runtime sees it; used by one thread."""

    @property
    def device(self) -> torch.device:
        """The learner's device."""
        ...

    @property
    def copies(self) -> tuple[int, int]:
        """How many copies to the device and from it have been submitted; those of recorded work count each time."""
        ...

    def register(self, block: Tensor) -> None:
        """Make shared host memory fit for copies that run beside the host. Raises DeviceError with the driver's code.

        It is released by ``close``, before its owner frees it.
        """
        ...

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        """Copy registered host memory to the device, inside submitted work; same shape, contiguous."""
        ...

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        """Copy device memory to registered host memory, inside submitted work; same shape, contiguous."""
        ...

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        """Return what repeats ``work``, which has run once before, at the least cost; nothing runs now.

        Args:
            work: Reads no value of the device, and keeps every tensor that it works on.
            generator: What it draws from.
        """
        ...

    def submit(self, lane: Lane, work: Callable[[], None]) -> Completion:
        """Start ``work`` on a lane, after what was submitted there before, and return at once."""
        ...

    def close(self) -> None:
        """Wait for all work, but not for ever, and release registered memory; never raises."""
        ...
