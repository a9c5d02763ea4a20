"""Exploration noise: scales that last an episode, numbers that last some steps, and how many."""

import math

import pytest
import torch

from domain.learning.exploration import EpisodeNoise, RepeatedNoise
from tests.support.host_sync import ForbidHostSync

MANY = 200_000
ALL = torch.tensor([True, True, True, True])


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


def holds(noise: RepeatedNoise) -> torch.Tensor:
    """Return for how many steps each row of a new noise keeps its first numbers, this one included."""
    noise()
    return noise.remaining + 1


def test_scales_lie_in_their_range_and_fill_it_evenly() -> None:
    scale = EpisodeNoise(MANY, 0.2, 0.8, generator()).scale

    assert scale.min() >= 0.2
    assert scale.max() <= 0.8
    # Mean 0.5 and deviation 0.6 / sqrt(12).
    assert float(scale.mean()) == pytest.approx(0.5, abs=0.002)
    assert float(scale.std()) == pytest.approx(0.6 / math.sqrt(12), abs=0.002)


def test_a_scale_changes_only_where_an_episode_starts() -> None:
    noise = EpisodeNoise(4, 0.2, 0.8, generator())
    before = noise.scale.clone()

    noise.start_episodes(torch.tensor([False, True, False, True]))

    assert (noise.scale != before).flatten().tolist() == [False, True, False, True]


def test_actions_do_not_change_scales() -> None:
    noise = EpisodeNoise(4, 0.2, 0.8, generator())
    before = noise.scale.clone()

    noise(2)

    assert torch.equal(noise.scale, before)


def test_each_row_has_noise_of_its_own_scale() -> None:
    noise = EpisodeNoise(3, 0.2, 0.8, generator())

    drawn = noise(MANY)

    torch.testing.assert_close(drawn.std(dim=1), noise.scale[:, 0], rtol=0.01, atol=0)
    torch.testing.assert_close(drawn.mean(dim=1), torch.zeros(3), rtol=0, atol=0.01)


def test_which_rows_started_does_not_move_the_random_stream() -> None:
    one, other = (EpisodeNoise(4, 0.2, 0.8, generator()) for _ in range(2))

    one.start_episodes(ALL)
    other.start_episodes(~ALL)

    assert torch.equal(one(2) / one.scale, other(2) / other.scale)


def test_shares_of_repetitions_are_those_of_the_specification() -> None:
    steps = holds(RepeatedNoise(MANY, 1, 2.0, 16, generator()))

    # Five standard errors of a share of 200 000 rows are below 0.0056.
    assert float((steps == 1).float().mean()) == pytest.approx(0.6311750, abs=0.0055)
    assert float((steps == 2).float().mean()) == pytest.approx(0.1577938, abs=0.0041)
    assert float((steps == 16).float().mean()) == pytest.approx(0.0024655, abs=0.0006)
    assert float((steps <= 4).float().mean()) == pytest.approx(0.8985478, abs=0.0034)
    assert float(steps.float().mean()) == pytest.approx(2.1338318, abs=0.03)
    assert int(steps.min()) == 1
    assert int(steps.max()) == 16


def test_every_repetition_is_the_inverse_of_the_exact_cumulative_law() -> None:
    total = sum(k**-2.0 for k in range(1, 17))
    cumulative = torch.tensor([sum(j**-2.0 for j in range(1, k + 1)) / total for k in range(1, 17)])
    twin = generator(3)
    torch.empty(MANY, 1).normal_(generator=twin)  # the held numbers come first
    uniform = torch.empty(MANY).uniform_(generator=twin)
    clear = ((uniform[:, None] - cumulative).abs() > 1e-6).all(dim=1)

    steps = holds(RepeatedNoise(MANY, 1, 2.0, 16, generator(3)))

    expected = 1 + (uniform[:, None] > cumulative).sum(dim=1)
    assert torch.equal(steps[clear], expected[clear])
    assert clear.float().mean() > 0.999
    assert float(cumulative[0]) == pytest.approx(0.6311750, abs=1e-7)
    assert float(cumulative[3]) == pytest.approx(0.8985478, abs=1e-7)


def test_noise_is_held_as_long_as_it_remains_and_then_new() -> None:
    noise = RepeatedNoise(64, 2, 2.0, 16, generator())
    held = noise().clone()
    remaining = noise.remaining.clone()

    for _ in range(20):
        now = noise().clone()
        same = (now == held).all(dim=1)
        assert torch.equal(same, remaining > 0)
        held, remaining = now, noise.remaining.clone()


def test_each_row_counts_by_itself() -> None:
    noise = RepeatedNoise(64, 2, 2.0, 16, generator())
    noise()

    assert len(set(noise.remaining.tolist())) > 3


def test_only_a_row_whose_episode_starts_drops_what_it_holds() -> None:
    noise = RepeatedNoise(4, 2, 2.0, 16, generator())
    held = noise().clone()
    noise.remaining.fill_(5)

    noise.start_episodes(torch.tensor([False, True, False, False]))

    assert (noise() == held).all(dim=1).tolist() == [True, False, True, True]


def test_a_longest_hold_of_one_step_draws_every_time() -> None:
    noise = RepeatedNoise(4, 2, 2.0, 1, generator())

    assert not (noise().clone() == noise()).any()


def test_held_numbers_are_standard_normal() -> None:
    held = RepeatedNoise(MANY, 1, 2.0, 16, generator())()

    assert float(held.mean()) == pytest.approx(0.0, abs=0.012)
    assert float(held.std()) == pytest.approx(1.0, abs=0.008)


def test_starting_episodes_does_not_move_the_random_stream_of_held_noise() -> None:
    one, other = (RepeatedNoise(4, 2, 2.0, 1, generator()) for _ in range(2))

    one.start_episodes(ALL)

    assert torch.equal(one(), other())


def test_exploration_does_not_wait_for_the_device() -> None:
    episodic, repeated = EpisodeNoise(4, 0.2, 0.8, generator()), RepeatedNoise(4, 2, 2.0, 16, generator())

    with ForbidHostSync():
        episodic.start_episodes(ALL)
        episodic(2)
        repeated.start_episodes(ALL)
        repeated()
