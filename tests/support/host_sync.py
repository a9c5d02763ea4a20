"""A dispatch mode that fails where a tensor's value reaches Python, or where a shape depends on data.

On a device such an operation waits for all work before it, and cannot be captured.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ALLOWED = ("/src/adapters/", "/tests/support/fake_backend.py")
"""The host side of a backend may read; it says itself when."""

_READS = frozenset(
    {"_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "nonzero", "argwhere", "masked_select"}
)
_INDEXES = frozenset({"index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_"})
_TORCH = str(Path(torch.__file__).parent)


class HostSyncError(AssertionError):
    """An operation that a device would have to wait for."""


class ForbidHostSync(TorchDispatchMode):
    """Fail on every operation that hands data to the host, unless an allowed file asked for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        bad = name in _READS or name.startswith(("unique", "_unique")) or (name in _INDEXES and _by_bool(args[1]))
        if bad and not _asked_by_an_adapter():
            raise HostSyncError(f"aten.{name} waits for the device")
        call: Callable[..., Any] = func
        return call(*args, **(kwargs or {}))


def _by_bool(indices: Sequence[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _asked_by_an_adapter() -> bool:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith(_TORCH):
            return any(part in file for part in ALLOWED)
        frame = frame.f_back
    return False
