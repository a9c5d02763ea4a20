"""Branches of a reference, and how close a run came to taking another one.

A gradient jumps where a ReLU's input passes zero, and a target where another critic becomes the lower one. Rounding
decides there, so a comparison is of use only on runs that kept away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_gaps: ContextVar[list[float] | None] = ContextVar("gaps", default=None)


@contextmanager
def recorded_gaps() -> Iterator[list[float]]:
    """Collect the distance from another branch, one number for each call of a function below."""
    gaps: list[float] = []
    token = _gaps.set(gaps)
    try:
        yield gaps
    finally:
        _gaps.reset(token)


def relu(x: Tensor) -> Tensor:
    """Return x where it is above zero, else zero; a branch where gradients pass."""
    if x.requires_grad:
        _record(x)
    return x.clamp(min=0)


def of_smaller(values: tuple[Tensor, Tensor], options: tuple[Tensor, Tensor]) -> Tensor:
    """Return, for each row, the option whose value (B,) is smaller; options (B,) or (B, K)."""
    (first_value, second_value), (first, second) = values, options
    shape = (-1, *[1] * (first.dim() - 1))
    matters = (first - second).abs().reshape(len(first), -1).amax(dim=1) > 1e-9
    _record((first_value - second_value)[matters])
    return torch.where((first_value < second_value).reshape(shape), first, second)


def _record(distance: Tensor) -> None:
    gaps, finite = _gaps.get(), distance.detach().abs()
    finite = finite[finite.isfinite()]
    if gaps is not None and finite.numel():
        gaps.append(float(finite.min()))
