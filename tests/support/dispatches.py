"""A dispatch mode that counts the operations that reach a device, and those that move data to or from it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_READS = frozenset({"_local_scalar_dense", "equal", "nonzero", "masked_select"})
"""Operations whose result, or its size, reaches Python: a device is waited for."""


class CountDispatches(TorchDispatchMode):
    """Counts operations that are no views (``total``, ``names``), and ``transfers`` between devices or to Python.

    A transfer is an operation that reads on one device and writes on another, that makes a tensor out of Python
    numbers, or whose result reaches Python. On a CPU every device is the same one, but what would be read by Python
    is counted as it would be elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self.transfers = 0
        self.names: dict[str, int] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        call: Callable[..., Any] = func
        result = call(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if not func.is_view:
            self.total += 1
            self.names[name] = self.names.get(name, 0) + 1
        given = _devices(args) | _devices(tuple((kwargs or {}).values()))
        crosses = len(given | _devices((result,))) > 1
        reads = name in _READS or name.startswith(("unique", "_unique")) or (name == "index" and _by_bool(args[1]))
        self.transfers += crosses or reads or name == "lift_fresh"
        return result


def _devices(values: Sequence[Any]) -> set[torch.device]:
    """Return where the tensors among ``values`` lie."""
    found: set[torch.device] = set()
    for value in values:
        if isinstance(value, Tensor):
            found.add(value.device)
        elif isinstance(value, tuple | list):
            found |= _devices(value)
    return found


def _by_bool(indices: Sequence[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
