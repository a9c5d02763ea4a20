"""Where rows start, as a function of their own uniform numbers and of failures."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domain.errors import ConfigurationError
from domain.motion.samplers import AdaptiveSampler, AdaptiveSettings, Sampling, StartSampler, make_sampler
from domain.motion.table import MotionTable
from tests.support.follower import BODIES, JOINTS, make_clip

ALMOST_ONE = 1.0 - 2.0**-24
MODES: tuple[Sampling, ...] = ("start", "clip_start", "uniform", "mixed", "adaptive")


def table_of(*lengths: int, fps: float = 50.0) -> MotionTable:
    clips = [make_clip(length, fps=fps) for length in lengths]
    return MotionTable(clips, JOINTS, BODIES, torch.device("cpu"))


def sampler_of(mode: Sampling, *lengths: int) -> StartSampler:
    return make_sampler(mode, table_of(*lengths), start_share=torch.tensor(0.25), adaptive=AdaptiveSettings())


def adaptive(*lengths: int, fps: float = 50.0, **settings: float) -> AdaptiveSampler:
    return AdaptiveSampler(table_of(*lengths, fps=fps), AdaptiveSettings(**settings))  # type: ignore[arg-type]


def numbers(rows: int, width: int = 2) -> Tensor:
    return torch.rand(rows, width, generator=torch.Generator().manual_seed(3))


def fail_at(sampler: StartSampler, *frames: int, steps: int = 1) -> None:
    for _ in range(steps):
        sampler.fold(torch.tensor(frames), torch.ones(len(frames), dtype=torch.bool))


def test_start_is_frame_0() -> None:
    assert sampler_of("start", 3, 5).sample(torch.zeros(4, 0)).tolist() == [0, 0, 0, 0]


def test_clip_start_is_the_first_frame_of_each_clip_alike() -> None:
    sampler = sampler_of("clip_start", 3, 5, 4)

    column = torch.tensor([[0.0], [0.33], [0.34], [0.66], [0.67], [ALMOST_ONE]])

    assert sampler.sample(column).tolist() == [0, 0, 3, 3, 8, 8]


def test_uniform_takes_every_frame_but_the_last_of_each_clip_alike() -> None:
    sampler = sampler_of("uniform", 3, 4)

    # Five starts: 0, 1 of the first clip and 3, 4, 5 of the second.
    column = torch.tensor([[0.0], [0.2], [0.4], [0.6], [0.8], [ALMOST_ONE]])

    assert sampler.sample(column).tolist() == [0, 1, 3, 4, 5, 5]


def test_mixed_starts_at_0_with_its_share_and_anywhere_else() -> None:
    sampler = sampler_of("mixed", 3, 4)

    chosen = sampler.sample(torch.tensor([[0.8, 0.24], [0.8, 0.26], [0.2, ALMOST_ONE]]))

    assert chosen.tolist() == [0, 5, 1]


def test_mixed_needs_its_share() -> None:
    with pytest.raises(ConfigurationError, match="give start_share"):
        make_sampler("mixed", table_of(3), start_share=None, adaptive=AdaptiveSettings())


@pytest.mark.parametrize("mode", MODES)
@given(st.lists(st.integers(2, 70), min_size=1, max_size=5), st.floats(0.0, ALMOST_ONE, width=32))
def test_every_start_is_a_frame_with_another_one_after_it_in_its_clip(
    mode: Sampling, lengths: list[int], u: float
) -> None:
    sampler = sampler_of(mode, *lengths)
    corners = torch.tensor([[u, u], [0.0, 0.0], [ALMOST_ONE, ALMOST_ONE], [0.0, ALMOST_ONE], [ALMOST_ONE, 0.0]])

    frame = sampler.sample(corners[:, : sampler.width])

    assert (frame >= 0).all()
    assert (frame < sampler.table.end_of[frame]).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_rows_start_depends_on_its_own_numbers_alone(mode: Sampling) -> None:
    sampler = sampler_of(mode, 30, 100)
    drawn = numbers(8)[:, : sampler.width]
    changed = drawn.clone()
    changed[1:] = 0.0

    assert sampler.sample(drawn)[0] == sampler.sample(changed)[0]


def test_a_clip_has_a_bin_for_each_begun_second() -> None:
    # floor(T / fps) + 1: 120 frames at 50 fps make 3 bins, 10 make 1.
    sampler = adaptive(120, 10)

    assert sampler.bins == 4
    # floor(frame * 3 / 120) in the first clip; the second has one of its own.
    assert sampler.bin_of[[0, 39, 40, 79, 80, 119, 120, 129]].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("frames", [120, 130])
def test_without_failures_all_bins_of_a_clip_are_alike(frames: int) -> None:
    sampler = adaptive(frames)

    torch.testing.assert_close(sampler.probabilities, torch.full((3,), 1 / 3))
    torch.testing.assert_close(sampler.figures()["sampling_entropy"], torch.tensor(1.0))


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_without_failures_clips_are_started_in_proportion_to_their_frames(kernel_size: int) -> None:
    sampler = adaptive(10, 400, kernel_size=kernel_size)

    # One bin of 10 frames and floor(400 / 50) + 1 of 400 / 9.
    expected = torch.tensor([10 / 410] + [400 / 410 / 9] * 9)
    torch.testing.assert_close(sampler.probabilities, expected)
    chosen = sampler.sample(numbers(20_000))
    assert float((chosen < 10).float().mean()) == pytest.approx(10 / 410, abs=0.005)


def test_the_uniform_part_of_a_bin_goes_by_its_frames_beside_failures() -> None:
    sampler = adaptive(10, 40, rate=1.0, uniform_ratio=0.5)

    fail_at(sampler, 0)

    # Raw 1 + 0.5 / 5 and 0 + 0.5 * 4 / 5.
    torch.testing.assert_close(sampler.probabilities, torch.tensor([1.1, 0.4]) / 1.5)


def test_a_start_lies_in_its_bin_as_the_formula_says() -> None:
    sampler = adaptive(120)

    # Cumulative probabilities 1/3, 2/3, 1; frame = trunc((b + u) / 3 * 119).
    chosen = sampler.sample(torch.tensor([[0.1, 0.0], [0.1, 0.5], [0.5, 0.0], [0.5, 0.9], [0.9, ALMOST_ONE]]))

    assert chosen.tolist() == [0, 19, 39, 75, 118]


def test_failures_are_a_moving_average() -> None:
    sampler = adaptive(120, rate=0.25)

    sampler.fold(torch.tensor([50, 45, 100, 0]), torch.tensor([True, True, True, False]))
    # Two in bin 1, one in bin 2.
    torch.testing.assert_close(sampler.failures, torch.tensor([0.0, 0.5, 0.25]))
    sampler.fold(torch.tensor([0, 0, 0, 0]), torch.tensor([True, False, False, False]))

    torch.testing.assert_close(sampler.failures, torch.tensor([0.25, 0.375, 0.1875]))
    raw = torch.tensor([0.25, 0.375, 0.1875]) + 0.1 / 3
    torch.testing.assert_close(sampler.probabilities, raw / raw.sum())


def test_a_step_without_failures_changes_nothing() -> None:
    sampler = adaptive(120, rate=0.25)
    fail_at(sampler, 50)
    before = sampler.state_dict()

    sampler.fold(torch.tensor([10, 20]), torch.tensor([False, False]))

    for name, value in sampler.state_dict().items():
        assert torch.equal(value, before[name])


def test_smoothing_spreads_a_failure_to_the_bins_before_it() -> None:
    sampler = adaptive(200, rate=1.0, uniform_ratio=1e-9, kernel_size=3, kernel_decay=0.5)
    assert sampler.bins == 5

    # floor(100 * 5 / 200) = 2.
    fail_at(sampler, 100)

    # Weights 1, 1/2, 1/4 for bins 2, 1, 0; none for those after it.
    expected = torch.tensor([0.25, 0.5, 1.0, 0.0, 0.0]) / 1.75
    torch.testing.assert_close(sampler.probabilities, expected, atol=1e-6, rtol=0)


def test_smoothing_stays_inside_a_clip() -> None:
    sampler = adaptive(60, 60, rate=1.0, uniform_ratio=1e-9, kernel_size=2, kernel_decay=0.5)

    # The first bin of the second clip; the last of the first has nothing to do with it.
    fail_at(sampler, 60)

    torch.testing.assert_close(sampler.probabilities, torch.tensor([0.0, 0.0, 1.0, 0.0]), atol=1e-6, rtol=0)


def test_a_smoothed_average_of_nothing_is_even() -> None:
    torch.testing.assert_close(adaptive(120, kernel_size=5).probabilities, torch.full((3,), 1 / 3))


def test_a_kernel_of_no_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="kernel_size is 0: give 1 for no smoothing"):
        adaptive(120, kernel_size=0)


def test_two_unlike_clips_gather_their_starts_where_the_longer_one_fails() -> None:
    """FR-05: all clips have their own bins, also where these are smoothed."""
    sampler = adaptive(10, 1000, kernel_size=3)
    # floor(10 / 50) + 1 and floor(1000 / 50) + 1.
    assert sampler.bins == 1 + 21
    even = sampler.sample(numbers(10_000))

    # Frame 500 of the second clip is row 510 of the table; its bin is 1 + floor(500 * 21 / 1000).
    fail_at(sampler, *[510] * 64, steps=200)
    chosen = sampler.sample(numbers(10_000))

    for frame in (even, chosen):
        assert (frame >= 0).all()
        assert (frame < sampler.table.end_of[frame]).all()
    # Bins 9, 10 and 11, the failing one last, begin at frames floor(8 / 21 * 999) of the clip and end after 523.
    before_failure = ((chosen >= 10 + 380) & (chosen <= 10 + 523)).float().mean()
    assert before_failure > 0.95
    assert sampler.probabilities[9:12].sum() > 0.95
    # By the weights 1, 0.8, 0.64 of bins 11, 10, 9, more than half of the mass lies before the failing bin.
    assert 0.5 < sampler.probabilities[9:11].sum() < 0.65
    assert ((even >= 390) & (even <= 533)).float().mean() < 0.2


def test_shares_of_starts_are_the_probabilities() -> None:
    sampler = adaptive(60, 60, 60, rate=0.5)
    fail_at(sampler, 30, 90, 90, 170)

    chosen = sampler.sample(numbers(20_000))

    share = torch.bincount(sampler.bin_of[chosen], minlength=sampler.bins) / 20_000
    torch.testing.assert_close(share, sampler.probabilities, atol=0.02, rtol=0)


def test_figures_name_the_likeliest_bin() -> None:
    sampler = adaptive(120, rate=1.0, uniform_ratio=0.3)
    fail_at(sampler, 119)

    figures = sampler.figures()

    # Raw 0.1, 0.1, 1.1: probabilities 1/13, 1/13, 11/13; bin 2 of 3.
    p = torch.tensor([1.0, 1.0, 11.0]) / 13.0
    torch.testing.assert_close(figures["sampling_top1_prob"], p[2])
    torch.testing.assert_close(figures["sampling_top1_bin"], torch.tensor(2 / 3))
    torch.testing.assert_close(figures["sampling_entropy"], -(p * p.log()).sum() / math.log(3))


def test_a_single_bin_has_no_entropy() -> None:
    assert adaptive(10).figures()["sampling_entropy"] == 0.0


def test_what_was_learnt_is_state() -> None:
    sampler, other = adaptive(120, 10, rate=0.5), adaptive(120, 10, rate=0.5)
    fail_at(sampler, 3, 50)

    other.load_state_dict(sampler.state_dict())

    assert torch.equal(other.sample(numbers(100)), sampler.sample(numbers(100)))
