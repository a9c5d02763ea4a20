"""A network whose parameters lie in one block of memory, with a copy of the matrices in the type of the arithmetic.

So a cast, a clip, an optimiser step or a move of the target is one operation for the whole network, and products find
their operands aligned: rows of matrices are padded to 16 bytes of the narrow type where the width does not do it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.func import functional_call

from domain.learning.kernels import PLAIN, Kernels
from domain.learning.layers import Beside, MatrixLayer


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a parameter lies in the block: ``stored`` is its shape with padding."""

    name: str
    start: int
    stored: tuple[int, ...]
    shape: tuple[int, ...]

    def padded(self, block: Tensor) -> Tensor:
        return block[self.start : self.start + prod(self.stored)].view(self.stored)

    def used(self, block: Tensor) -> Tensor:
        view = self.padded(block)
        for dim, size in enumerate(self.shape):
            view = view.narrow(dim, 0, size)
        return view


class Network:
    """Runs a module with trainable, or with fixed, parameters.

    Args:
        module: On its device; its parameters become views of the block from here on.
        compute: Type of the matrices in products; other parameters stay float32.
        kernels: Handed to the module at each run.
    """

    def __init__(self, module: nn.Module, compute: torch.dtype, kernels: Kernels = PLAIN) -> None:
        self.module, self._with = module, {"kernels": kernels}
        self._beside: Beside | None = None
        self._places, self._matrices = _plan(module)
        last = self._places[-1]
        parameters = dict(module.named_parameters())
        self.weights = torch.zeros(last.start + prod(last.stored), device=parameters[last.name].device)
        for place in self._places:
            place.used(self.weights).copy_(parameters[place.name].detach())
            parameters[place.name].data = place.used(self.weights)
        narrow = compute != torch.float32
        self._narrow = self.weights[: self._matrices].to(compute) if narrow else None
        self._leaves = {
            place.name: place.padded(self._source(place)).detach().requires_grad_() for place in self._places
        }
        self._fixed = {name: leaf.detach() for name, leaf in self._leaves.items()}

    def _source(self, place: _Place) -> Tensor:
        return self.weights if self._narrow is None or place.start >= self._matrices else self._narrow

    def __call__(self, *inputs: object) -> Tensor:
        """Return the module's output; gradients flow to inputs and parameters."""
        output: Tensor = functional_call(self.module, self._leaves, inputs, self._with)
        return output

    def fixed(self, *inputs: object) -> Tensor:
        """Return the module's output; gradients flow to inputs only."""
        output: Tensor = functional_call(self.module, self._fixed, inputs, self._with)
        return output

    def use_beside(self, stream: torch.cuda.Stream) -> None:
        """Let ``gradient`` do its derivatives by matrices on ``stream``; no matrix may be used twice in a loss."""
        self._beside = Beside(stream)
        for part in self.module.modules():
            if isinstance(part, MatrixLayer):
                part.beside = self._beside

    def gradient(self, loss: Tensor, shares: Tensor | None = None) -> Tensor:
        """Return d loss / d weights, float32 of the block's shape; a loss of rows is summed by their ``shares``."""
        parts = torch.autograd.grad(loss, list(self._leaves.values()), shares)
        if self._beside is not None:
            self._beside.join()
        flat = [part.flatten() for part in parts]
        if self._narrow is None:
            return torch.cat(flat)
        narrow = sum(place.start < self._matrices for place in self._places)
        gradient = torch.empty_like(self.weights)
        gradient[: self._matrices].copy_(torch.cat(flat[:narrow]))
        torch.cat(flat[narrow:], out=gradient[self._matrices :])
        return gradient

    def refresh(self) -> None:
        """Bring the narrow copy up to date; belongs after every change of the weights."""
        if self._narrow is not None:
            self._narrow.copy_(self.weights[: self._matrices])

    def views(self, block: Tensor) -> dict[str, Tensor]:
        """Return the parts of a block of the weights' shape by parameter name, without padding."""
        return {place.name: place.used(block) for place in self._places}


def _plan(module: nn.Module) -> tuple[list[_Place], int]:
    """Return where each parameter goes, matrices first, and the length of the matrices' part."""
    places: list[_Place] = []
    start = 0
    for matrices in (True, False):
        for name, parameter, stored in _parameters(module, matrices):
            places.append(_Place(name, start, stored, tuple(parameter.shape)))
            start += prod(stored)
        if matrices:
            boundary = start
    return places, boundary


def _parameters(module: nn.Module, matrices: bool) -> Iterator[tuple[str, nn.Parameter, tuple[int, ...]]]:
    for prefix, part in module.named_modules():
        stored: Mapping[str, tuple[int, ...]] = part.stored_shapes() if isinstance(part, MatrixLayer) else {}
        for name, parameter in part.named_parameters(recurse=False):
            if (isinstance(part, MatrixLayer) and name == "weight") == matrices:
                path = f"{prefix}.{name}" if prefix else name
                yield path, parameter, stored.get(name, tuple(parameter.shape))
