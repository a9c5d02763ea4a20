"""Layers single and side by side: Torch's own layers, first values, and gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from domain.learning.kernels import TorchKernels
from domain.learning.layers import Affine, Head, MatrixLayer, Mlp, NormalizedLayer, RectifiedLayer

KERNELS = TorchKernels()
HIDDEN: dict[str, type[RectifiedLayer] | type[NormalizedLayer]] = {
    "rectified": RectifiedLayer,
    "normalized": NormalizedLayer,
}


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("members", [None, 2])
def test_first_weights_fill_the_range_of_torch_evenly(members: int | None) -> None:
    layer = Affine(16, 4000, members, generator())

    for values in (layer.weight.detach(), layer.bias.detach()):
        assert values.abs().max() <= 0.25
        # Deviation of a uniform number within 1/4.
        assert float(values.std()) == pytest.approx(0.25 / 3**0.5, rel=0.03)


def test_members_start_differently() -> None:
    layer = Affine(3, 4, 2, generator())

    assert not torch.equal(layer.weight[0], layer.weight[1])


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_single_network_equals_layers_of_torch(kind: str) -> None:
    mlp = Mlp((5, 12, 8, 3), HIDDEN[kind], None, generator())
    x = torch.randn(6, 5)
    y = x
    for layer in mlp.layers:
        assert isinstance(layer, Affine)
        y = F.linear(y, layer.weight, layer.bias)
        if isinstance(layer, NormalizedLayer):
            y = F.silu(F.layer_norm(y, y.shape[-1:], layer.norm_weight, layer.norm_bias))
        else:
            y = F.relu(y)

    torch.testing.assert_close(mlp(x), F.linear(y, mlp.head.weight, mlp.head.bias))


@pytest.mark.parametrize("kind", HIDDEN)
def test_members_are_networks_of_their_own_with_gradients_of_their_own(kind: str) -> None:
    twins = Mlp((5, 12, 8, 3), HIDDEN[kind], 2, generator())
    x, weights = torch.randn(6, 5).requires_grad_(), torch.randn(2, 3)
    y = twins(x)
    gradients = torch.autograd.grad((y.sin() * weights).sum(), list(twins.parameters()), retain_graph=True)
    singles = []

    for member in (0, 1):
        single = Mlp((5, 12, 8, 3), HIDDEN[kind], None, generator(1))
        single.load_state_dict({name: value[member] for name, value in twins.state_dict().items()})
        own = single(x)
        singles.append((own.sin() * weights[member]).sum())
        torch.testing.assert_close(y[:, member], own)
        expected = torch.autograd.grad(singles[-1], list(single.parameters()), retain_graph=True)
        for both, one in zip(gradients, expected, strict=True):
            torch.testing.assert_close(both[member], one)

    torch.testing.assert_close(
        torch.autograd.grad((y.sin() * weights).sum(), x), torch.autograd.grad(singles[0] + singles[1], x)
    )


def test_a_network_may_pad_inputs_of_the_first_and_outputs_of_the_last_layer_only() -> None:
    mlp = Mlp((5, 12, 9, 3), RectifiedLayer, 2, generator())
    stored = [layer.stored_shapes() for layer in mlp.modules() if isinstance(layer, MatrixLayer)]

    assert stored == [
        {"weight": (2, 12, 8), "bias": (2, 12)},
        {"weight": (2, 9, 12), "bias": (2, 9)},
        {"weight": (2, 8, 9), "bias": (2, 8)},
    ]


def test_widths_that_are_aligned_are_not_padded() -> None:
    assert Affine(16, 8, None, generator(), (True, True)).stored_shapes() == {"weight": (8, 16), "bias": (8,)}


@pytest.mark.parametrize("seed", [0, 1])
def test_first_values_depend_on_the_generator_alone(seed: int) -> None:
    torch.manual_seed(seed)

    again = nn.utils.parameters_to_vector(Head(3, 4, None, generator()).parameters())

    assert torch.equal(again, nn.utils.parameters_to_vector(Head(3, 4, None, generator()).parameters()))
    assert not torch.equal(again, nn.utils.parameters_to_vector(Head(3, 4, None, generator(1)).parameters()))
