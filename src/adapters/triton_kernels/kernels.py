"""``domain.learning.kernels.Kernels`` over Triton, for CUDA and ROCm devices."""

from collections.abc import Callable, Sequence

from torch import Tensor

from adapters.triton_kernels import weights as weight_kernels
from adapters.triton_kernels.batch_norm import BatchNorm
from adapters.triton_kernels.bellman_loss import BellmanLoss
from adapters.triton_kernels.row_norm import RowNorm
from adapters.triton_kernels.squash import Draw
from domain.learning.categorical import Support
from domain.learning.kernels import (
    LAYER_EPSILON,
    RMS_EPSILON,
    AdamState,
    AdamWCfg,
    BatchNormState,
    Bellman,
    Squash,
    TargetRule,
    UnitRows,
)


class TritonKernels:
    """Each operation in one or two passes over memory; statistics and sums are float32."""

    def norm_silu(self, x: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        """See ``Kernels``."""
        y: Tensor = RowNorm.apply(x, gain, bias, shift, LAYER_EPSILON)
        return y

    def rms_norm(self, x: Tensor, gain: Tensor) -> Tensor:
        """See ``Kernels``."""
        y: Tensor = RowNorm.apply(x, gain, None, None, RMS_EPSILON)
        return y

    def batch_norm_relu(
        self, x: Tensor, state: BatchNormState, batch_statistics: bool, residual: Tensor | None = None
    ) -> Tensor:
        """See ``Kernels``."""
        y: Tensor = BatchNorm.apply(x, state.gain, state.shift, residual, state, batch_statistics, None)
        return y

    def input_norm(self, x: Tensor, state: BatchNormState, batch_statistics: bool, weight: Tensor) -> Tensor:
        """See ``Kernels``."""
        y: Tensor = BatchNorm.apply(x, state.gain, state.shift, None, state, batch_statistics, weight.detach())
        return y

    def bellman_loss(
        self, logits: Tensor, next_logits: Tensor, bellman: Bellman, support: Support, rule: TargetRule
    ) -> tuple[Tensor, Tensor]:
        """See ``Kernels``."""
        loss, value = BellmanLoss.apply(logits, next_logits, bellman, support, rule)
        return loss, value

    def draw(self, head: Tensor, noise: Tensor, squash: Squash) -> tuple[Tensor, Tensor]:
        """See ``Kernels``."""
        action, log_prob = Draw.apply(head, noise, squash)
        return action, log_prob

    def adamw(self, weights: Tensor, gradient: Tensor, state: AdamState, cfg: AdamWCfg, signal: Tensor) -> Tensor:
        """See ``Kernels``."""
        return weight_kernels.adamw(weights, gradient, state, cfg, signal)

    def projection(self, rows: Sequence[UnitRows]) -> Callable[[], None]:
        """See ``Kernels``."""
        return weight_kernels.projection(rows)
