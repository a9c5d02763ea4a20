"""RSL-RL's Gaussian, sampled without asking the device anything."""

import torch
from rsl_rl.modules.distribution import GaussianDistribution
from torch import Tensor


class DeviceGaussian(GaussianDistribution):  # type: ignore[misc]  # the library has no types
    """The library's distribution with a sample of the same numbers.

    ``torch.normal`` reads the smallest deviation back to the host to check its sign, on every call; here it is
    clamped above zero already.
    """

    def sample(self) -> Tensor:
        """Return mean + std * standard normal numbers, (num_envs, actions)."""
        mean: Tensor = self.mean
        return torch.randn_like(mean).mul_(self.std).add_(mean)
