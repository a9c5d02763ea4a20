"""Transfer over CUDA streams, events and graphs; a ROCm build of Torch offers the same under the same names."""

import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from domain.errors import DeviceError, WorkerError
from domain.graphs import capture
from domain.transfer import Lane

_REST_S = 10.0
"""How long a closing transfer waits for the device."""
_NAP_S = 1e-3
_DRIFT = 2e-5
"""Share by which two clocks may part, far above what crystals do."""


class _Clock:
    """Brings device times to the host's clock.

    The host sees an event after it happened, never before: of all sightings the least late one is right, and it ages.
    """

    def __init__(self, event: torch.cuda.Event, seen_at: float) -> None:
        self._event, self._at = event, seen_at

    def saw(self, event: torch.cuda.Event, seen_at: float) -> None:
        """Take in that ``event`` had happened at ``seen_at``."""
        passed = self._event.elapsed_time(event) / 1e3
        if passed > 0.0:
            self._event, self._at = event, min(seen_at, self._at + passed * (1.0 + _DRIFT))

    def time(self, event: torch.cuda.Event) -> float:
        """Return when ``event`` happened, s."""
        return self._at + float(self._event.elapsed_time(event)) / 1e3


class _Submitted:
    """A Completion between two events."""

    def __init__(self, clock: _Clock, begin: torch.cuda.Event, end: torch.cuda.Event) -> None:
        self._clock, self._begin, self._end = clock, begin, end
        self._seen = False

    def done(self) -> bool:
        """Ask the driver."""
        if not self._seen:
            try:
                self._seen = self._end.query()
            except RuntimeError as error:
                raise WorkerError(f"the GPU failed: {error}") from error
            if self._seen:
                self._clock.saw(self._end, time.perf_counter())
        return self._seen

    def span(self) -> tuple[float, float]:
        """Return begin and end on the host's clock."""
        return self._clock.time(self._begin), self._clock.time(self._end)


class CudaTransfer:
    """Transfer to one CUDA device; the learner's lane is the stream that is current when work is submitted.

    Args:
        device: With an index.
        graphs: Whether recorded work becomes CUDA graphs.
    """

    def __init__(self, device: torch.device, *, graphs: bool) -> None:
        self.device = device
        self._graphs = graphs
        torch.cuda.set_device(device)
        self._streams = {lane: torch.cuda.Stream(device) for lane in (Lane.SIDE, Lane.ENV)}
        self._copies = [0, 0]
        self._registered: list[Tensor] = []
        origin = torch.cuda.Event(enable_timing=True)
        origin.record()
        origin.synchronize()
        self._clock = _Clock(origin, time.perf_counter())

    @property
    def copies(self) -> tuple[int, int]:
        """Copies in and out so far."""
        return self._copies[0], self._copies[1]

    def register(self, block: Tensor) -> None:
        """Page-lock shared memory by ``cudaHostRegister``; a block on the device itself needs nothing."""
        if block.is_cuda:
            return
        code = int(torch.cuda.cudart().cudaHostRegister(block.data_ptr(), block.nbytes, 0))
        if code:
            with suppress(RuntimeError):
                # The driver repeats an error to the next call that asks: here that is this one, and nobody else's.
                torch.zeros((), device=self.device)
            raise DeviceError(
                f"cudaHostRegister refused {block.nbytes} bytes of shared memory with code {code}: raise the limit of "
                "locked memory (ulimit -l), or lower train.num_envs"
            )
        self._registered.append(block)

    def copy_in(self, host: Tensor, target: Tensor) -> None:
        """Queue a copy to the device."""
        target.copy_(host, non_blocking=True)
        self._copies[0] += 1

    def copy_out(self, source: Tensor, host: Tensor) -> None:
        """Queue a copy to the host."""
        host.copy_(source, non_blocking=True)
        self._copies[1] += 1

    def record(self, work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        """Capture ``work`` as one graph."""
        if not self._graphs:
            return work
        before = self.copies
        graph = capture(work, generator)
        copied = [now - then for now, then in zip(self.copies, before, strict=True)]
        self._copies = list(before)

        def replay() -> None:
            graph.replay()
            self._copies = [total + more for total, more in zip(self._copies, copied, strict=True)]

        return replay

    def submit(self, lane: Lane, work: Callable[[], None]) -> _Submitted:
        """Queue ``work`` between two events."""
        stream = self._streams.get(lane) or torch.cuda.current_stream(self.device)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        try:
            with torch.cuda.stream(stream):
                begin.record(stream)
                work()
                end.record(stream)
        except RuntimeError as error:
            raise WorkerError(f"the GPU failed: {error}") from error
        return _Submitted(self._clock, begin, end)

    def close(self) -> None:
        """Wait a while for the device, then unlock the memory; one that hangs is left to the process's end."""
        if self._comes_to_rest():
            for block in self._registered:
                torch.cuda.cudart().cudaHostUnregister(block.data_ptr())
        self._registered.clear()

    def _comes_to_rest(self) -> bool:
        deadline = time.perf_counter() + _REST_S
        with suppress(RuntimeError, WorkerError):
            ends = [self.submit(lane, _nothing) for lane in Lane]
            while not all(end.done() for end in ends):
                if time.perf_counter() > deadline:
                    return False
                time.sleep(_NAP_S)
            return True
        return False


def _nothing() -> None:
    """Is done when all before it is."""
