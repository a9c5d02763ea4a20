"""Which tensors of a manager or term live on from step to step, and so belong to a checkpoint."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from domain.errors import DataError


class Stateful:
    """Keeps named tensors whose storage never moves; their values are the object's whole state."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def keep(self, name: str, tensor: Tensor) -> Tensor:
        """Register a tensor as state and return it."""
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
        """Copy values back into the kept tensors. Raises DataError for a missing name or another shape."""
        for name, tensor in self._kept.items():
            if name not in state:
                raise DataError(f"saved state lacks '{name}': it belongs to another configuration")
            if state[name].shape != tensor.shape:
                raise DataError(
                    f"saved state '{name}' has shape {tuple(state[name].shape)}, expected {tuple(tensor.shape)}"
                )
            tensor.copy_(state[name])
        for child, part in self.children():
            if isinstance(part, Stateful):
                part.load_state_dict(select(state, child))


def select(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries under ``prefix/`` with that prefix removed."""
    start = f"{prefix}/"
    return {name[len(start) :]: tensor for name, tensor in state.items() if name.startswith(start)}


def set_rows(tensor: Tensor, mask: Tensor, value: Tensor | float) -> None:
    """Write ``value`` in place into the rows of ``tensor`` under ``mask``, (num_envs,) bool."""
    rows = mask.view((-1,) + (1,) * (tensor.dim() - 1))
    if isinstance(value, Tensor):
        tensor.copy_(torch.where(rows, value, tensor))
    else:
        tensor.masked_fill_(rows, value)
