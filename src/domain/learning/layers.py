"""Layers of the SAC and TD3 networks, single or several side by side.

A layer computes in the type of its matrix. Twin critics are the two members of one layer: activations are
(rows, members, features).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domain.learning.kernels import PLAIN, Kernels

_ALIGNED = 8


class Beside:
    """Does the products that give derivatives by matrices on a stream beside the rest of a backward pass.

    They are too small to fill a device, and nothing waits for them before the pass ends. Their results may be read
    after ``join`` only, so no matrix may be used twice in one loss. A copy of a module has none.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._held: list[tuple[Tensor, Tensor]] = []

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return left @ right, which will be there after ``join``; what it reads is held until then."""
        self._held.append((left, right))
        self._stream.wait_stream(torch.cuda.current_stream(left.device))
        with torch.cuda.stream(self._stream):
            return torch.matmul(left, right)

    def join(self) -> None:
        """Let what follows wait for the products."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        self._held.clear()

    def __deepcopy__(self, memo: object) -> None:
        """Leave copies of modules to one stream."""


class _Product(torch.autograd.Function):
    """One product, or a batched one for all members, written straight into (rows, members, features).

    ``torch.bmm`` alone gives (members, rows, features): norms would need a copy of it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, beside: Beside | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.beside = beside
        return _product(x, weight.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, _ = ctx.needs_input_grad
        grad_weight = None
        # First, so that it need not wait for the other.
        if wants_weight:
            sides = (grad.mT, x) if weight.dim() == 2 else (grad.permute(1, 2, 0), x.transpose(0, 1))
            grad_weight = torch.matmul(*sides) if ctx.beside is None else ctx.beside.product(*sides)
        return _product(grad, weight) if wants_x else None, grad_weight, None


def _product(x: Tensor, matrices: Tensor) -> Tensor:
    if matrices.dim() == 2:
        return x @ matrices
    if torch.compiler.is_compiling():
        return torch.bmm(x.transpose(0, 1), matrices).transpose(0, 1).contiguous()
    y = x.new_empty(x.shape[0], x.shape[1], matrices.shape[2])
    torch.bmm(x.transpose(0, 1), matrices, out=y.transpose(0, 1))
    return y


class MatrixLayer(nn.Module):
    """A linear map without bias, or several members side by side.

    Args:
        weight: (out, in) or (members, out, in), first values.
        pad_inputs: Whether a network may store more, zero, columns for the sake of alignment.
        pad_outputs: Whether it may store more, zero, rows: then there are more columns of output.
    """

    def __init__(self, weight: Tensor, *, pad_inputs: bool = False, pad_outputs: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.beside: Beside | None = None
        self._inputs = weight.shape[-1]
        self._pads = (pad_outputs, pad_inputs)

    def stored_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the padded shapes of matrix and bias."""
        *members, outputs, inputs = self.weight.shape
        outputs, inputs = (
            -(-size // _ALIGNED) * _ALIGNED if pads else size
            for size, pads in zip((outputs, inputs), self._pads, strict=True)
        )
        return {"weight": (*members, outputs, inputs), "bias": (*members, outputs)}

    def product(self, x: Tensor) -> Tensor:
        """Return W x, (rows[, members], out), for (rows, in) or (rows, members, in)."""
        weight = self.weight
        x = x.to(weight.dtype)
        # Only what a network stores wider than the layer is; another width is the caller's mistake.
        if self._inputs == x.shape[-1] < weight.shape[-1]:
            x = F.pad(x, (0, weight.shape[-1] - self._inputs))
        if x.dim() < weight.dim():
            return F.linear(x, weight.flatten(0, 1)).view(len(x), *weight.shape[:2])
        result: Tensor = _Product.apply(x, weight, self.beside)  # type: ignore[no-untyped-call]
        return result


class Affine(MatrixLayer):
    """A linear map with bias, started uniformly within 1/sqrt(inputs) (the default of ``torch.nn.Linear``).

    Args:
        inputs: Columns of x.
        outputs: Columns of y.
        members: None for a single map; else how many maps work side by side.
        generator: On the CPU; gives the first weights.
        pads: As of ``MatrixLayer``: inputs, outputs.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        members: int | None,
        generator: torch.Generator,
        pads: tuple[bool, bool] = (False, False),
    ) -> None:
        side = () if members is None else (members,)
        limit = inputs**-0.5
        weight = torch.empty(*side, outputs, inputs).uniform_(-limit, limit, generator=generator)
        super().__init__(weight, pad_inputs=pads[0], pad_outputs=pads[1])
        self.bias = nn.Parameter(torch.empty(*side, outputs).uniform_(-limit, limit, generator=generator))


class Head(Affine):
    """A last layer."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows, in) or (rows, members, in) to (rows[, members], out), float32."""
        return self.product(x) + self.bias


class RectifiedLayer(Affine):
    """A linear map and ReLU."""

    def forward(self, x: Tensor, kernels: Kernels) -> Tensor:
        """Return the layer's output, in the type of its matrix."""
        y = self.product(x)
        return F.relu(y + self.bias.to(y.dtype))


class NormalizedLayer(Affine):
    """A linear map, LayerNorm (eps 1e-5) and SiLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        members: int | None,
        generator: torch.Generator,
        pads: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__(inputs, outputs, members, generator, pads)
        self.norm_weight = nn.Parameter(torch.ones_like(self.bias))
        self.norm_bias = nn.Parameter(torch.zeros_like(self.bias))

    def forward(self, x: Tensor, kernels: Kernels) -> Tensor:
        """Return the layer's output, in the type of its matrix."""
        return kernels.norm_silu(self.product(x), self.bias, self.norm_weight, self.norm_bias)


class Mlp(nn.Module):
    """Hidden layers of one kind and a linear head.

    Args:
        widths: Columns of the input, of each hidden layer and of the output.
        layer: The kind of the hidden layers.
        members: As of ``Affine``.
        generator: On the CPU; gives the first weights.
    """

    def __init__(
        self,
        widths: Sequence[int],
        layer: type[RectifiedLayer] | type[NormalizedLayer],
        members: int | None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        *inner, last, outputs = widths
        pairs = zip(inner, [*inner[1:], last], strict=True)
        layers = [layer(i, o, members, generator, (number == 0, False)) for number, (i, o) in enumerate(pairs)]
        self.layers = nn.ModuleList(layers)
        self.head = Head(last, outputs, members, generator, (False, True))

    def forward(self, x: Tensor, kernels: Kernels = PLAIN) -> Tensor:
        """Map (rows, in) to (rows[, members], out) float32; a ``Network`` may add columns to inputs and outputs."""
        for layer in self.layers:
            x = layer(x, kernels)
        y: Tensor = self.head(x)
        return y
