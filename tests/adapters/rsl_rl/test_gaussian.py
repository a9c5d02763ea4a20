"""The sync-free sample against Torch's own."""

import torch

from adapters.rsl_rl.gaussian import DeviceGaussian


def test_a_sample_has_the_bits_of_torch_normal() -> None:
    gaussian = DeviceGaussian(3, init_std=0.5)
    mean = torch.linspace(-1.0, 1.0, 96).reshape(32, 3)

    with torch.no_grad():
        gaussian.update(mean)
        torch.manual_seed(4)
        sample = gaussian.sample()
        torch.manual_seed(4)
        expected = torch.normal(mean, torch.full_like(mean, 0.5))

    assert torch.equal(sample, expected)
