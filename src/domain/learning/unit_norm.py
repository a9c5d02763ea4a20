"""FlashSAC's networks: weights, features and gains of bounded norm (arXiv 2604.04539).

Layers hold ``members`` maps side by side as in ``domain.learning.layers``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from domain.learning.kernels import PLAIN, BatchNormState, Kernels, UnitRows
from domain.learning.layers import MatrixLayer


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitShape:
    """Columns of input, trunk and output; residual blocks, and how many times they widen inside."""

    inputs: int
    width: int
    outputs: int
    blocks: int
    expansion: int


class UnitLinear(MatrixLayer):
    """A linear map whose rows have norm 1; started orthogonal.

    Args:
        inputs: Columns of x.
        outputs: Columns of y.
        members: None for a single map.
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
        weight = torch.empty(members or 1, outputs, inputs)
        for member in weight:
            nn.init.orthogonal_(member, generator=generator)
        weight = F.normalize(weight, dim=-1)
        super().__init__(weight[0].clone() if members is None else weight, pad_inputs=pads[0], pad_outputs=pads[1])

    def unit_rows(self) -> UnitRows:
        """Name what has norm 1."""
        return UnitRows((self.weight.detach(),), 1.0)


class UnitHead(UnitLinear):
    """Unit rows and an ordinary bias, started at 0."""

    def __init__(self, inputs: int, outputs: int, members: int | None, generator: torch.Generator) -> None:
        super().__init__(inputs, outputs, members, generator, (False, True))
        self.bias = nn.Parameter(torch.zeros(self.weight.shape[:-1]))

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows[, members], in) to (rows[, members], out), float32."""
        return self.product(x) + self.bias


class UnitBatchNorm(nn.Module):
    """Batch norm per member whose gains and shifts together have norm sqrt(width)."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, members: int | None) -> None:
        super().__init__()
        shape = (width,) if members is None else (members, width)
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def state(self) -> BatchNormState:
        """Return gains and statistics."""
        return BatchNormState(self.weight, self.bias, self.running_mean, self.running_var)

    def unit_rows(self) -> UnitRows:
        """Name what has norm sqrt(width)."""
        return UnitRows((self.weight.detach(), self.bias.detach()), self.weight.shape[-1] ** 0.5)


class UnitRmsNorm(nn.Module):
    """x / sqrt(mean(x^2) + 1e-6), times gains of norm sqrt(width)."""

    def __init__(self, width: int, members: int | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((width,) if members is None else (members, width)))

    def forward(self, x: Tensor, kernels: Kernels) -> Tensor:
        """Normalise (rows[, members], width)."""
        return kernels.rms_norm(x, self.weight)

    def unit_rows(self) -> UnitRows:
        """Name what has norm sqrt(width)."""
        return UnitRows((self.weight.detach(),), self.weight.shape[-1] ** 0.5)


class ResidualBlock(nn.Module):
    """x + ReLU(BN(W2 ReLU(BN(W1 x)))), W1 widening ``expansion`` times."""

    def __init__(self, width: int, expansion: int, members: int | None, generator: torch.Generator) -> None:
        super().__init__()
        self.expand = UnitLinear(width, expansion * width, members, generator)
        self.expand_norm = UnitBatchNorm(expansion * width, members)
        self.contract = UnitLinear(expansion * width, width, members, generator)
        self.contract_norm = UnitBatchNorm(width, members)

    def forward(self, x: Tensor, batch_statistics: bool, kernels: Kernels) -> Tensor:
        """Map (rows[, members], width) to the same shape."""
        y = kernels.batch_norm_relu(self.expand.product(x), self.expand_norm.state(), batch_statistics)
        return kernels.batch_norm_relu(self.contract.product(y), self.contract_norm.state(), batch_statistics, x)


class UnitNormNetwork(nn.Module):
    """Input batch norm, embedding, residual blocks, RMS norm and a linear head with an ordinary bias.

    Args:
        shape: Widths and blocks.
        members: None for a single network.
        generator: On the CPU; gives the first weights.
    """

    def __init__(self, shape: UnitShape, members: int | None, generator: torch.Generator) -> None:
        super().__init__()
        width = shape.width
        self.norm = UnitBatchNorm(shape.inputs, members)
        self.embed = UnitLinear(shape.inputs, width, members, generator, (True, False))
        blocks = [ResidualBlock(width, shape.expansion, members, generator) for _ in range(shape.blocks)]
        self.blocks = nn.ModuleList(blocks)
        self.out_norm = UnitRmsNorm(width, members)
        self.head = UnitHead(width, shape.outputs, members, generator)

    def forward(
        self, x: Tensor, batch_statistics: bool = False, wanted: slice = slice(None), kernels: Kernels = PLAIN
    ) -> Tensor:
        """Map (rows, in) float32 to (rows[, members], out) float32; a ``Network`` may add columns to outputs.

        Args:
            x: Observations, or observations and actions.
            batch_statistics: What batch norms use; only with them running statistics move.
            wanted: Rows to return; the others take part in batch statistics only.
            kernels: Do the costly operations.
        """
        x = kernels.input_norm(x, self.norm.state(), batch_statistics, self.embed.weight)
        x = self.embed.product(x)
        for block in self.blocks:
            x = block(x, batch_statistics, kernels)
        y: Tensor = self.head(self.out_norm(x[wanted], kernels))
        return y

    def unit_rows(self) -> list[UnitRows]:
        """Name all that has a norm to keep."""
        return list(_unit_rows(self))


def _unit_rows(network: nn.Module) -> Iterator[UnitRows]:
    for module in network.modules():
        if isinstance(module, UnitLinear | UnitBatchNorm | UnitRmsNorm):
            yield module.unit_rows()
