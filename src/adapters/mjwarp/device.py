"""Where Warp runs: a Torch device's counterpart, and Torch's current stream, so that both stay in one order."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from adapters.mjwarp.engine import warp as wp
from domain.errors import CapabilityError, DeviceError

_STREAMS: dict[tuple[int, int], wp.Stream] = {}
"""Warp's object for each of Torch's streams, by device and handle. The process has one of each and keeps it: Warp knows
a stream by its handle and forgets it with the first object over it that goes, whoever else still uses another."""


def tensor_of(array: Any) -> Tensor:
    """Return a tensor over a Warp array's own memory; a vector's elements become its last dimension."""
    tensor: Tensor = wp.to_torch(array)
    return tensor


class WarpDevice:
    """Runs Warp on Torch's current stream of one device, eagerly or inside a graph that Torch captures.

    Raises:
        DeviceError: Warp has no counterpart of the device.
    """

    def __init__(self, device: torch.device) -> None:
        if device.type not in ("cpu", "cuda"):
            raise DeviceError(f"simulator 'mjwarp' runs on a CUDA GPU or, slowly, on the CPU, not on {device.type}")
        wp.init()  # type: ignore[no-untyped-call]
        if device.type == "cuda":
            if not wp.is_cuda_available():
                raise DeviceError("Warp finds no CUDA driver: use --device cpu for a few envs, or another --sim")
            if device.index is None:
                device = torch.device("cuda", torch.cuda.current_device())
        self.torch = device
        self._warp = wp.device_from_torch(device)
        self._graphs: list[wp.Graph] = []

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Let Warp allocate on this device and launch on Torch's current stream of it."""
        if self.torch.type == "cpu":
            with wp.ScopedDevice(self._warp):
                yield
        else:
            # No event between the streams: one of the two may be capturing, and Torch's is the order that counts.
            with wp.ScopedStream(self._stream(), sync_enter=False):
                yield

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Tell Warp that Torch is capturing the current stream; what Warp launches inside joins that graph.

        Raises:
            CapabilityError: This is no CUDA device.
        """
        if self.torch.type == "cpu":
            raise CapabilityError("the mjwarp backend is on the CPU: a CUDA graph cannot record it")
        stream = self._stream()
        with wp.ScopedStream(stream, sync_enter=False):
            # External: Torch began the capture. Warp would else allocate as if outside and break it.
            wp.capture_begin(stream=stream, external=True)
            try:
                yield
            finally:
                # Keeps the kernels that the graph launches loaded.
                self._graphs.append(wp.capture_end(stream=stream))

    def _stream(self) -> wp.Stream:
        stream = torch.cuda.current_stream(self.torch)
        key = (stream.device.index, stream.cuda_stream)
        if key not in _STREAMS:
            _STREAMS[key] = wp.stream_from_torch(stream)  # type: ignore[no-untyped-call]
        return _STREAMS[key]
