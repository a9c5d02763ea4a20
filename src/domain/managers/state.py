"""Which tensors of a manager or term live on from step to step, and so belong to a checkpoint."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from domain.errors import ConfigurationError, DataError


class Stateful:
    """Keeps named tensors whose storage never moves; their values are the object's whole state."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def keep(self, name: str, tensor: Tensor) -> Tensor:
        """Register a tensor as state and return it. Raises ConfigurationError for a name that is taken."""
        if name in self._kept:
            raise ConfigurationError(f"{type(self).__name__} keeps two tensors called '{name}': rename one")
        self._kept[name] = tensor
        return tensor

    def keep_rows(
        self, name: str, num_envs: int, *shape: int, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Register and return a zero tensor (num_envs, *shape)."""
        return self.keep(name, torch.zeros(num_envs, *shape, device=device, dtype=dtype))

    def children(self) -> Iterable[tuple[str, object]]:
        """Name the parts that may be stateful themselves; none by default."""
        return ()

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of all kept tensors, children's under ``child/name``."""
        state = {name: tensor.clone() for name, tensor in self._kept.items()}
        for child, part in self.children():
            if isinstance(part, Stateful):
                state |= {f"{child}/{name}": tensor for name, tensor in part.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Copy values back into the kept tensors. Raises DataError, before anything changes, where they do not fit."""
        own = self.state_dict()
        check_names(state, own)
        # Before shapes: why they differ is the better message.
        self.check_state(state)
        check_fits(state, own)
        self.copy_state(state)

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raise DataError for a state with the right names that must not be continued from; asks the children."""
        for child, part in self.children():
            if isinstance(part, Stateful):
                part.check_state(select(state, child))

    def copy_state(self, state: Mapping[str, Tensor]) -> None:
        """Copy values that fit into the kept tensors, children's too."""
        for name, tensor in self._kept.items():
            tensor.copy_(state[name])
        for child, part in self.children():
            if isinstance(part, Stateful):
                part.copy_state(select(state, child))


def check_names(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise DataError unless ``state`` has the names of ``own``."""
    for name in sorted(state.keys() ^ own.keys()):
        what = "lacks" if name in own else "has an unknown"
        raise DataError(f"saved state {what} '{name}': it belongs to another configuration or version")


def check_fits(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise DataError unless ``state`` has the names, shapes and types of ``own``."""
    check_names(state, own)
    for name, tensor in own.items():
        saved = state[name]
        if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
            raise DataError(
                f"saved state '{name}' is {saved.dtype} of shape {tuple(saved.shape)}, "
                f"expected {tensor.dtype} of shape {tuple(tensor.shape)}"
            )


def select(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries under ``prefix/`` with that prefix removed."""
    start = f"{prefix}/"
    return {name[len(start) :]: tensor for name, tensor in state.items() if name.startswith(start)}


def put(tensor: Tensor, chosen: Tensor, value: Tensor) -> None:
    """Write ``value`` in place where ``chosen`` is true; both broadcast to ``tensor``."""
    torch.where(chosen, value, tensor, out=tensor)


def finite(value: Tensor) -> Tensor:
    """Return where ``value`` is a finite number; two operations, of which ``torch.isfinite`` takes four."""
    return value.abs() < math.inf


def set_rows(tensor: Tensor, mask: Tensor, value: Tensor | float) -> None:
    """Write ``value`` in place into the rows of ``tensor`` under ``mask``, (num_envs,) bool."""
    rows = mask.view((-1,) + (1,) * (tensor.dim() - 1))
    if isinstance(value, Tensor):
        put(tensor, rows, value)
    else:
        tensor.masked_fill_(rows, value)
