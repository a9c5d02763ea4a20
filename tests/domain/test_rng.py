"""The random stream of an environment."""

import pytest
import torch

from domain.errors import ConfigurationError, DataError
from domain.rng import TorchManagerRng, derive_seed

CPU = torch.device("cpu")


def stream(seed: int = 1, num_envs: int = 3, width: int = 4) -> TorchManagerRng:
    rng = TorchManagerRng(seed, num_envs, CPU)
    rng.reserve(width)
    rng.freeze()
    return rng


def test_equal_seeds_give_equal_blocks_and_others_differ() -> None:
    """FR-63, FR-64."""
    one, two, other = stream(1), stream(1), stream(2)
    for rng in (one, two, other):
        rng.advance()

    assert torch.equal(one.block, two.block)
    assert not torch.equal(one.block, other.block)


def test_named_streams_of_a_seed_differ_and_are_63_bit() -> None:
    seeds = [derive_seed(5, name) for name in ("manager", "learner", "replay", "init")]

    assert len(set(seeds)) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_each_draw_owns_its_columns() -> None:
    rng = TorchManagerRng(0, 2, CPU)
    first, second = rng.reserve(2), rng.reserve(1)
    rng.freeze()
    rng.advance()

    assert torch.equal(first.uniform(), rng.block[:, :2])
    assert torch.equal(second.uniform(), rng.block[:, 2:])


def test_the_block_keeps_its_storage() -> None:
    rng = stream()
    before = rng.block.data_ptr()
    rng.advance()

    assert rng.block.data_ptr() == before


def test_the_generator_moves_by_one_block_an_advance_whoever_reads_it() -> None:
    read, unread = stream(), stream()
    draw = TorchManagerRng(1, 3, CPU).reserve(4)
    for _ in range(3):
        read.advance()
        unread.advance()
        read.block.sum()
        draw.uniform()

    assert torch.equal(read.generator.get_state(), unread.generator.get_state())


def test_seed_starts_the_same_generator_anew() -> None:
    rng = stream(1)
    generator = rng.generator
    rng.advance()
    first = rng.block.clone()
    rng.advance()

    rng.seed(1)
    rng.advance()

    assert rng.generator is generator
    assert torch.equal(rng.block, first)


def test_reserving_after_the_freeze_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="while terms are constructed"):
        stream().reserve(1)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="seed is -1"):
        TorchManagerRng(-1, 2, CPU)
    with pytest.raises(ConfigurationError, match="seed is -2"):
        stream().seed(-2)


def test_between_has_the_bounds_as_mean_and_span() -> None:
    rng = TorchManagerRng(0, 4000, CPU)
    draw = rng.reserve(2)
    rng.freeze()
    rng.advance()

    numbers = draw.between(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 30.0]))

    torch.testing.assert_close(numbers.mean(dim=0), torch.tensor([0.5, 20.0]), atol=0.3, rtol=0)
    assert (numbers.amin(dim=0) >= torch.tensor([0.0, 10.0])).all()
    assert (numbers.amax(dim=0) <= torch.tensor([1.0, 30.0])).all()


def test_an_empty_range_gives_its_number_exactly() -> None:
    rng = stream()
    draw = TorchManagerRng(1, 3, CPU).reserve(0)
    rng.advance()

    assert draw.uniform().shape == (3, 0)
    assert torch.equal(rng.block * (0.3 - 0.3) + 0.3, torch.full((3, 4), 0.3))


def test_normal_numbers_have_mean_0_and_std_1_and_are_finite_at_the_edges() -> None:
    rng = TorchManagerRng(0, 20000, CPU)
    draw = rng.reserve(1)
    rng.freeze()
    rng.advance()
    numbers = draw.normal()
    rng.block[0], rng.block[1] = 0.0, 1.0 - 2.0**-24

    torch.testing.assert_close(numbers.mean(), torch.tensor(0.0), atol=0.03, rtol=0)
    torch.testing.assert_close(numbers.std(), torch.tensor(1.0), atol=0.03, rtol=0)
    assert torch.isfinite(draw.normal()).all()


def test_a_saved_stream_goes_on_with_the_same_numbers() -> None:
    rng, other = stream(1), stream(2)
    rng.advance()
    other.load_state_dict(rng.state_dict())
    assert torch.equal(other.block, rng.block)

    rng.advance()
    other.advance()

    assert torch.equal(other.block, rng.block)


def test_a_saved_stream_of_another_width_is_refused() -> None:
    with pytest.raises(DataError, match="'block'"):
        stream(width=4).load_state_dict(stream(width=5).state_dict())
