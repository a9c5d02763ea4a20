"""From a network's output to actions within the environment's bounds."""

import torch
from torch import Tensor, nn

from domain.learning.kernels import PLAIN, Kernels, Squash
from domain.learning.tanh_gaussian import LogDensity


class ActionBounds(nn.Module):
    """Maps [-1, 1] to [low, high] per action: c = (high - low) / 2, d = (high + low) / 2.

    Args:
        low: Lower bounds, (A,), in the units of the environment's action.
        high: Upper bounds, above ``low``.
    """

    low: Tensor
    high: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, low: tuple[float, ...], high: tuple[float, ...]) -> None:
        super().__init__()
        bottom, top = torch.tensor(low, dtype=torch.float32), torch.tensor(high, dtype=torch.float32)
        self.register_buffer("low", bottom)
        self.register_buffer("high", top)
        self.register_buffer("scale", (top - bottom) / 2)
        self.register_buffer("bias", (top + bottom) / 2)

    def forward(self, unit: Tensor) -> Tensor:
        """Map as ``denormalize`` does and cut: what an environment is given."""
        return self.cut(self.denormalize(unit))

    def cut(self, action: Tensor) -> Tensor:
        """Bring back what rounding put outside the bounds, (..., A)."""
        return action.clamp(self.low, self.high)

    def denormalize(self, unit: Tensor) -> Tensor:
        """Map actions in [-1, 1], (..., A), to the environment's units."""
        return torch.addcmul(self.bias, unit, self.scale)


class TanhGaussian(nn.Module):
    """Actions of a network whose output is (rows, 2 A or more): means, then raw log standard deviations.

    Args:
        bounds: Of the action.
        log_std: Lowest and highest log standard deviation.
        log_density: Which form.
    """

    def __init__(self, bounds: ActionBounds, log_std: tuple[float, float], log_density: LogDensity) -> None:
        super().__init__()
        self.bounds = bounds
        self._log_std, self._log_density = log_std, log_density

    def middle(self, head: Tensor) -> Tensor:
        """Return the deterministic action, (rows, A), in env units."""
        action: Tensor = self.bounds(torch.tanh(head[..., : len(self.bounds.scale)]))
        return action

    def sample(self, head: Tensor, noise: Tensor, kernels: Kernels = PLAIN) -> Tensor:
        """Return the action of ``noise``, (rows, A) standard normal, in env units and within the bounds."""
        return self.bounds.cut(self.draw(head, noise, kernels)[0])

    def draw(self, head: Tensor, noise: Tensor, kernels: Kernels = PLAIN) -> tuple[Tensor, Tensor]:
        """Return the action of ``noise``, in env units, and its log-density, (rows,); see ``Kernels.draw``."""
        squash = Squash(self.bounds.scale, self.bounds.bias, self._log_std, self._log_density)
        return kernels.draw(head, noise, squash)
