"""One block of memory for a network: views, padding, gradients and the narrow copy."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from domain.learning.kernels import AdamWCfg, CosineRate, TorchKernels
from domain.learning.layers import Mlp, NormalizedLayer, RectifiedLayer
from domain.learning.network import Network
from domain.learning.optimization import Stepper
from domain.learning.unit_norm import UnitNormNetwork, UnitShape

KERNELS = TorchKernels()
INPUTS, OUTPUTS, ROWS = 5, 11, 6  # neither width is a multiple of 8
MODULES = ("normalized", "rectified", "unit")
MEMBERS = (None, 2)


def module_of(kind: str, members: int | None) -> nn.Module:
    """Return a small module with random biases and gains, so that nothing is special."""
    generator = torch.Generator().manual_seed(0)
    module: nn.Module
    if kind == "unit":
        module = UnitNormNetwork(
            UnitShape(inputs=INPUTS, width=8, outputs=OUTPUTS, blocks=1, expansion=4), members, generator
        )
    else:
        layer = NormalizedLayer if kind == "normalized" else RectifiedLayer
        module = Mlp((INPUTS, 12, 8, OUTPUTS), layer, members, generator)
    for parameter in module.parameters():
        if parameter.dim() == (1 if members is None else 2):
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module


def rows_of(seed: int = 1) -> Tensor:
    """Return random inputs."""
    return torch.randn(ROWS, INPUTS, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=[(kind, members) for kind in MODULES for members in MEMBERS], ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[nn.Module, Network]:
    """A plain module and a network of the same numbers."""
    module = module_of(*request.param)
    return module, Network(copy.deepcopy(module), torch.float32)


def test_parameters_are_views_of_the_block(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    start = network.weights.data_ptr()
    end = start + network.weights.nbytes

    for (name, own), theirs in zip(network.module.named_parameters(), plain.parameters(), strict=True):
        assert start <= own.data_ptr() < end
        assert torch.equal(own, theirs)
        assert torch.equal(network.views(network.weights)[name], own)

    network.weights.fill_(2.0)
    assert all((parameter == 2.0).all() for parameter in network.module.parameters())


def test_no_two_parameters_share_a_number(pair: tuple[nn.Module, Network]) -> None:
    _, network = pair
    counts = torch.zeros_like(network.weights)

    for view in network.views(counts).values():
        view += 1

    assert counts.max() == 1.0
    assert int(counts.sum()) == sum(p.numel() for p in network.module.parameters())


def test_the_block_is_padded_and_views_are_not(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    views = network.views(network.weights)

    assert {name: view.shape for name, view in views.items()} == {n: p.shape for n, p in plain.named_parameters()}
    assert len(network.weights) > sum(parameter.numel() for parameter in plain.parameters())
    assert network.weights.abs().sum() == pytest.approx(float(sum(v.abs().sum() for v in views.values())), rel=1e-5)


def test_outputs_equal_those_of_the_plain_module(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    x = rows_of()

    for run in (network, network.fixed):
        found = run(x)
        torch.testing.assert_close(found[..., :OUTPUTS].detach(), plain(x).detach())
        assert found.shape[-1] == 16
        assert torch.equal(found[..., OUTPUTS:], torch.zeros_like(found[..., OUTPUTS:]))


def test_the_module_itself_still_runs_on_the_block(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    x = rows_of()

    torch.testing.assert_close(network.module(x), plain(x))


def test_the_gradient_equals_autograd_on_the_plain_module(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    x = rows_of()
    weights = torch.randn(OUTPUTS, generator=torch.Generator().manual_seed(2))
    expected = torch.autograd.grad((plain(x).sin() * weights).sum(), list(plain.parameters()))

    gradient = network.gradient((network(x)[..., :OUTPUTS].sin() * weights).sum())

    views = network.views(gradient)
    for (name, _), theirs in zip(plain.named_parameters(), expected, strict=True):
        torch.testing.assert_close(views[name], theirs, atol=1e-5, rtol=1e-4)
    assert gradient.shape == network.weights.shape
    assert gradient.abs().sum() == pytest.approx(float(sum(v.abs().sum() for v in views.values())), rel=1e-5)


class Lane:
    """Stands for a stream, and writes down what waits for what."""

    device = torch.device("cpu")

    def __init__(self, name: str, log: list[str]) -> None:
        self._name, self._log = name, log

    def wait_stream(self, other: "Lane") -> None:
        self._log.append(f"{self._name} waits for {other._name}")

    @contextmanager
    def entered(self) -> Iterator[None]:
        self._log.append(f"on {self._name}")
        yield


def test_derivatives_by_matrices_are_done_beside_and_waited_for(
    pair: tuple[nn.Module, Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, network = pair
    log: list[str] = []
    main, side = Lane("main", log), Lane("side", log)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: main)
    monkeypatch.setattr(torch.cuda, "stream", Lane.entered)
    x = rows_of()
    right = network.gradient(network(x).square().sum())

    network.use_beside(cast(torch.cuda.Stream, side))
    gradient = network.gradient(network(x).square().sum())

    assert torch.equal(gradient, right)
    assert log[-1] == "main waits for side"
    products = log[:-1]
    assert len(products) >= 4
    assert products == ["side waits for main", "on side"] * (len(products) // 2)
    log.clear()
    network.gradient(copy.deepcopy(network.module)(x).square().sum() + network(x).sum())
    assert len(log) == len(products) + 1


def test_fixed_parameters_get_no_gradient_and_inputs_do(pair: tuple[nn.Module, Network]) -> None:
    plain, network = pair
    x, y = rows_of().requires_grad_(), rows_of().requires_grad_()
    (expected,) = torch.autograd.grad(plain(y).square().sum(), y)

    network.fixed(x).square().sum().backward()

    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected, atol=1e-5, rtol=1e-4)
    assert all(parameter.grad is None for parameter in network.module.parameters())
    assert not network.fixed(rows_of()).requires_grad


def test_padding_stays_zero_over_steps(pair: tuple[nn.Module, Network]) -> None:
    _, network = pair
    used = torch.zeros_like(network.weights)
    for view in network.views(used).values():
        view += 1
    cfg = AdamWCfg(rate=CosineRate.constant(0.01), weight_decay=0.1, max_grad_norm=1.0)
    stepper = Stepper(network.weights, cfg, KERNELS)

    for seed in range(5):
        loss = network(rows_of(seed))[..., :OUTPUTS].square().mean()
        stepper.step(loss.detach(), network.gradient(loss))
        if isinstance(network.module, UnitNormNetwork):
            KERNELS.projection(network.module.unit_rows())()
        network.refresh()

    assert (network.weights[used == 0.0] == 0.0).all()
    assert stepper.state.step == 5.0


def test_a_step_on_the_block_is_seen_by_every_way_of_running(pair: tuple[nn.Module, Network]) -> None:
    _, network = pair
    x, before = rows_of(), network.fixed(rows_of()).clone()

    network.weights.mul_(1.5)
    network.refresh()

    assert not torch.equal(network.fixed(x), before)
    assert torch.equal(network(x).detach(), network.fixed(x))
    torch.testing.assert_close(network.module(x).detach(), network.fixed(x)[..., :OUTPUTS])


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("members", MEMBERS)
def test_a_narrow_network_computes_like_a_wide_one_and_keeps_float32(kind: str, members: int | None) -> None:
    wide, narrow = (Network(module_of(kind, members), compute) for compute in (torch.float32, torch.bfloat16))
    x = rows_of()

    y, exact = narrow(x), wide(x)
    gradient = narrow.gradient(y.square().mean())

    assert y.dtype == narrow.weights.dtype == gradient.dtype == torch.float32
    assert torch.equal(narrow.weights, wide.weights)
    torch.testing.assert_close(y.detach(), exact.detach(), atol=0.06, rtol=0.05)
    angle = torch.cosine_similarity(gradient, wide.gradient(exact.square().mean()), dim=0)
    assert angle > 0.995


def test_a_narrow_network_follows_its_weights_only_when_refreshed() -> None:
    narrow = Network(module_of("rectified", None), torch.bfloat16)
    x = rows_of()
    before = narrow.fixed(x).clone()

    for name, view in narrow.views(narrow.weights).items():
        if name.endswith(".weight"):
            view.zero_()
    stale = narrow.fixed(x).clone()
    narrow.refresh()

    assert torch.equal(stale, before)
    assert not torch.equal(narrow.fixed(x), before)
