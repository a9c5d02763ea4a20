"""Transfer on Apple GPUs: one queue, so both lanes run in the order in which the learner's thread submits."""

import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from domain.errors import WorkerError
from domain.transfer import Lane


class _Submitted:
    """A Completion that spans from its submission to when it was first seen done: this device has no better clock."""

    def __init__(self, began: float, end: torch.mps.Event) -> None:
        self._began, self._event = began, end
        self._ended: float | None = None

    def done(self) -> bool:
        """Ask the device."""
        if self._ended is None:
            try:
                seen = self._event.query()
            except RuntimeError as error:
                raise WorkerError(f"the GPU failed: {error}") from error
            if seen:
                self._ended = time.perf_counter()
        return self._ended is not None

    def span(self) -> tuple[float, float]:
        """Return submission and sighting."""
        return self._began, self._began if self._ended is None else self._ended


class MpsTransfer:
    """Transfer to the Apple GPU; memory is shared with the host, so there is nothing to register and no graph."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies = [0, 0]

    @property
    def copies(self) -> tuple[int, int]:
        """Copies in and out so far."""
        return self._copies[0], self._copies[1]

    def register(self, block: Tensor) -> None:
        """Nothing to do."""

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        """Queue a copy to the device."""
        target.copy_(host)
        self._copies[0] += 1

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        """Copy to the host; this waits for the work before it."""
        host.copy_(source)
        self._copies[1] += 1

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        """Return ``work`` as it is."""
        return work

    def submit(self, lane: Lane, work: Callable[[], None]) -> _Submitted:
        """Queue ``work`` behind everything submitted before, of both lanes."""
        began = time.perf_counter()
        work()
        event = torch.mps.Event(enable_timing=False)
        event.record()
        return _Submitted(began, event)

    def close(self) -> None:
        """Wait for the device; one that failed has nothing to wait for."""
        with suppress(RuntimeError):
            torch.mps.synchronize()
