"""The gait clock."""

import math

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError
from domain.locomotion.gait import GaitClock
from domain.managers.command import CommandTermCfg
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import make_env, mask, step


def env(num_envs: int = 4, *, frequency: float = 2.0, **flags: bool) -> ManagerBasedRlEnv:
    params = {"frequency": frequency, "offsets": (0.0, 0.5), **flags}
    clock = CommandTermCfg(func=GaitClock, params=params, resampling_time_s=(10.0, 10.0))
    return make_env(backend=FakeBackend(num_envs), commands={"gait": clock})


def test_feet_start_at_their_offsets_and_wrap_at_1() -> None:
    made = env()
    assert made.view.command("gait")[0].tolist() == [0.0, 0.5]

    step(made, 15)

    # 15 steps of 0.02 s at 2 Hz are 0.6 cycles.
    torch.testing.assert_close(made.view.command("gait")[0], torch.tensor([0.6, 0.1]), atol=1e-5, rtol=0)


def test_resets_of_other_rows_leave_a_phase_alone() -> None:
    """FR-08: one step a step, whatever env 0 does."""
    made = env()
    for number in range(1, 21):
        made.reset(mask(1, 0, 0, 0))
        step(made)
        expected = (0.04 * number) % 1.0
        torch.testing.assert_close(made.view.command("gait")[1:, 0], torch.full((3,), expected), atol=1e-5, rtol=0)


def test_a_random_start_is_drawn_for_reset_rows_only() -> None:
    made = env(random_start=True)
    before = made.view.command("gait").clone()
    assert len(set(before[:, 0].tolist())) == 4

    made.reset(mask(1, 0, 0, 0))

    changed = (made.view.command("gait") != before).any(dim=1)
    assert changed.tolist() == [True, False, False, False]


def test_without_a_random_start_a_reset_leaves_the_clock_running() -> None:
    made = env()
    step(made, 3)
    before = made.view.command("gait").clone()
    made.reset()

    assert torch.equal(made.view.command("gait"), before)


def test_phases_stay_below_1() -> None:
    made = env(frequency=24.99)
    for _ in range(50):
        step(made)
        assert ((made.view.command("gait") >= 0.0) & (made.view.command("gait") < 1.0)).all()


def test_a_negative_frequency_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="commands.gait.params.frequency is -1.0"):
        env(frequency=-1.0)


def test_radians_are_cycles_times_2_pi_before_and_after_a_step() -> None:
    made = env(random_start=True, radians=True)
    clock = made.view.command_term("gait", GaitClock)
    for _ in range(30):
        torch.testing.assert_close(clock.value, 2.0 * math.pi * clock.cycles)
        assert ((clock.value >= 0.0) & (clock.value < 2.0 * math.pi)).all()
        step(made)
    assert clock.value.max() > 3.0


def test_a_phase_set_by_hand_is_where_the_next_step_goes_on() -> None:
    made = env(frequency=1.5, random_start=True, radians=True)
    made.view.command_term("gait", GaitClock).phase.fill_(2.8706 / (2.0 * math.pi))
    step(made)

    # One step of 0.02 s at 1.5 Hz is 0.18850 rad; the other foot is pi ahead.
    expected = torch.tensor([3.05910, 6.20069])
    torch.testing.assert_close(made.view.command("gait")[0], expected, atol=1e-4, rtol=0)


def test_feet_keep_their_offsets_unless_they_are_independent() -> None:
    shift = [
        (made.view.command("gait")[:, 1] - made.view.command("gait")[:, 0]).remainder(1.0)
        for made in (env(64, random_start=True), env(64, random_start=True, independent=True))
    ]

    torch.testing.assert_close(shift[0], torch.full((64,), 0.5))
    assert shift[1].std() > 0.2


def test_independent_feet_are_drawn_for_reset_rows_only_and_advance_together() -> None:
    made = env(random_start=True, independent=True)
    before = made.view.command("gait").clone()
    made.reset(mask(1, 0, 0, 0))

    assert (made.view.command("gait") != before).tolist() == [[True, True], *[[False, False]] * 3]
    step(made)
    torch.testing.assert_close(made.view.command("gait")[1:], (before[1:] + 0.04).remainder(1.0))


def test_independent_feet_without_a_random_start_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="commands.gait: independent feet are drawn at random"):
        env(independent=True)


def test_a_saved_clock_goes_on_where_it_was() -> None:
    made, other = env(random_start=True, radians=True), env(random_start=True, radians=True)
    step(made, 3)
    other.load_state_dict(made.state_dict())
    step(made)
    step(other)

    assert torch.equal(made.view.command("gait"), other.view.command("gait"))
