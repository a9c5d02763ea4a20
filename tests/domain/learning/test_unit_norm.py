"""FlashSAC's networks: first norms, what has which norm, and batch statistics only where they are asked for."""

import pytest
import torch

from domain.learning.kernels import TorchKernels
from domain.learning.unit_norm import UnitLinear, UnitNormNetwork, UnitShape

KERNELS = TorchKernels()


def network(members: int | None = None, blocks: int = 2) -> UnitNormNetwork:
    """Return a small network."""
    return UnitNormNetwork(
        UnitShape(inputs=5, width=8, outputs=11, blocks=blocks, expansion=4),
        members,
        torch.Generator().manual_seed(0),
    )


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 3), (8, 8), (3, 8)])
@pytest.mark.parametrize("members", [None, 2])
def test_first_rows_have_norm_1(inputs: int, outputs: int, members: int | None) -> None:
    weight = UnitLinear(inputs, outputs, members, torch.Generator().manual_seed(0)).weight

    torch.testing.assert_close(weight.norm(dim=-1), torch.ones(weight.shape[:-1]), atol=1e-6, rtol=0)


def test_first_rows_that_fit_are_orthogonal() -> None:
    weight = UnitLinear(8, 3, None, torch.Generator().manual_seed(0)).weight

    torch.testing.assert_close(weight @ weight.T, torch.eye(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("members", [None, 2])
def test_everything_but_the_head_s_bias_has_a_norm_to_keep(members: int | None) -> None:
    net = network(members)
    kept = {weight.data_ptr() for rows in net.unit_rows() for weight in rows.weights}

    free = [name for name, parameter in net.named_parameters() if parameter.data_ptr() not in kept]

    assert free == ["head.bias"]
    assert {rows.norm for rows in net.unit_rows()} == {1.0, 5**0.5, 8**0.5, 32**0.5}


def test_a_new_network_is_already_projected() -> None:
    net = network(2)
    before = {name: value.clone() for name, value in net.state_dict().items()}

    KERNELS.projection(net.unit_rows())()

    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, before[name], atol=1e-6, rtol=0)


def test_projection_restores_every_norm() -> None:
    net = network(2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))

    KERNELS.projection(net.unit_rows())()

    for rows in net.unit_rows():
        norms = torch.cat(rows.weights, dim=-1).norm(dim=-1)
        torch.testing.assert_close(norms, torch.full_like(norms, rows.norm), atol=1e-5, rtol=0)


@pytest.mark.parametrize("members", [None, 2])
def test_running_statistics_move_only_with_batch_statistics(members: int | None) -> None:
    net, x = network(members), 3 + torch.randn(16, 5)
    before = {name: value.clone() for name, value in net.named_buffers()}

    net(x)
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())

    net(x, True)
    assert not any(torch.equal(value, before[name]) for name, value in net.named_buffers())


def test_batch_statistics_make_the_output_blind_to_shift_and_scale_of_the_input() -> None:
    net, x = network(), torch.randn(64, 5)

    torch.testing.assert_close(net(x, True), net(100 * x + 7, True), atol=2e-3, rtol=1e-3)


def test_logits_are_of_order_1_at_the_start() -> None:
    net = UnitNormNetwork(
        UnitShape(inputs=5, width=64, outputs=101, blocks=2, expansion=4), 2, torch.Generator().manual_seed(0)
    )

    logits = net(torch.randn(256, 5), True).detach()

    # Rows of norm 1 on features of mean square 1.
    assert 0.5 < float(logits.std()) < 2.0


@pytest.mark.parametrize("blocks", [1, 3])
def test_there_are_as_many_blocks_as_asked_for(blocks: int) -> None:
    names = {name.split(".")[1] for name, _ in network(blocks=blocks).named_parameters() if name.startswith("blocks.")}

    assert names == {str(number) for number in range(blocks)}
