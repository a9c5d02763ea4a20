"""Rewards about feet, on phases and sensors set by hand."""

import math
from typing import Any

import pytest
import torch

from domain.errors import ConfigurationError
from domain.locomotion.gait import GaitClock
from domain.locomotion.rewards import (
    FeetAirTime,
    FeetContactMatchesGait,
    FeetFollowHeightCurve,
    FeetTiltL2,
    SwingFeetHeight,
    swing_height,
)
from domain.managers.terms import TermCfg, bind_term
from domain.view import EnvView
from tests.support.small_env import make_view, mask

CONTACT: dict[str, Any] = {"clock": "gait", "stance": 0.6, "threshold": 0.5}
SWING: dict[str, Any] = {"clock": "gait", "stance": 0.6, "target": 0.1, "sigma": 0.01}


CURVE: dict[str, Any] = {
    "clock": "gait",
    "peak": 0.1,
    "sigma": 0.01,
    "velocity_sensor": "linvel",
    "min_forward_speed": 0.0,
}
AIR: dict[str, Any] = {"threshold": 0.0, "window": (0.03, 0.07), "command": "twist", "min_command": 0.5}


def walking(*, radians: bool = False, left: float = 0.1) -> EnvView:
    """Return a view whose left foot is in stance, and the right one, 0.6 of a cycle ahead, in swing."""
    view = make_view()
    clock = GaitClock(view, frequency=torch.tensor(1.0), offsets=torch.tensor([0.0, 0.6]), radians=radians)
    clock.phase.fill_(left - 0.02)
    clock.advance()
    view.commands["gait"], view.command_terms["gait"] = clock.value, clock
    return view


def value(view: EnvView, func: Any, sensors: tuple[str, ...], params: dict[str, Any]) -> torch.Tensor:
    result: torch.Tensor = bind_term(TermCfg(func=func, params={"sensors": sensors, **params}), view, "rewards.r")()
    return result


@pytest.mark.parametrize(("left", "right", "share"), [(1, 0, 1.0), (1, 1, 0.5), (0, 0, 0.5), (0, 1, 0.0)])
def test_the_share_of_feet_that_touch_as_their_phase_says(left: float, right: float, share: float) -> None:
    view = walking()
    view.sensor("left_contact").fill_(left)
    view.sensor("right_contact").fill_(right)

    assert value(view, FeetContactMatchesGait, ("left_contact", "right_contact"), CONTACT).tolist() == [share, share]


def test_only_the_swinging_foot_is_rewarded_for_its_height() -> None:
    view = walking()
    view.sensor("left_pos")[:, 2] = 0.1
    view.sensor("right_pos")[:, 2] = 0.2

    # One of two feet swings, 0.1 m from the target: exp(-0.01 / 0.01) / 2.
    expected = torch.full((2,), math.exp(-1.0) / 2)
    torch.testing.assert_close(value(view, SwingFeetHeight, ("left_pos", "right_pos"), SWING), expected)


def test_a_missing_sensor_is_named_at_construction() -> None:
    """FR-58."""
    with pytest.raises(ConfigurationError, match="rewards.r: unknown sensor 'left_conta': did you mean 'left_contact'"):
        value(walking(), FeetContactMatchesGait, ("left_conta", "right_contact"), CONTACT)


@pytest.mark.parametrize(
    ("func", "sensor", "params"),
    [(FeetContactMatchesGait, "left_contact", CONTACT), (SwingFeetHeight, "left_pos", SWING)],
)
def test_each_foot_of_the_clock_needs_a_sensor(func: Any, sensor: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="rewards.r: 1 sensors for the 2 feet of the clock"):
        value(walking(), func, (sensor,), params)


@pytest.mark.parametrize("radians", [False, True])
def test_the_unit_that_a_policy_sees_changes_no_reward(radians: bool) -> None:
    view = walking(radians=radians)
    view.sensor("left_contact").fill_(1.0)
    view.sensor("right_contact").fill_(0.0)
    view.sensor("right_pos")[:, 2] = 0.1

    assert value(view, FeetContactMatchesGait, ("left_contact", "right_contact"), CONTACT).tolist() == [1.0, 1.0]
    assert value(view, SwingFeetHeight, ("left_pos", "right_pos"), SWING).tolist() == [0.5, 0.5]


def test_rewards_on_a_clock_refuse_another_command() -> None:
    view = walking()
    view.commands["twist"], view.command_terms["twist"] = torch.zeros(2, 3), object()

    with pytest.raises(ConfigurationError, match="rewards.r: command 'twist' is a object, and a GaitClock is needed"):
        value(view, SwingFeetHeight, ("left_pos", "right_pos"), {**SWING, "clock": "twist"})


@pytest.mark.parametrize(
    ("cycles", "height"),
    # With t = 1/2 and 1/4 of the rise or fall: 3 t^2 - 2 t^3 = 1/2 and 5/32.
    [(0.5, 0.0), (0.625, 5 / 32), (0.75, 0.5), (1.0, 1.0), (0.0, 1.0), (0.25, 0.5), (0.375, 5 / 32)],
)
def test_the_height_curve_at_known_phases(cycles: float, height: float) -> None:
    torch.testing.assert_close(swing_height(torch.tensor([cycles]), torch.tensor(0.09)), torch.tensor([0.09 * height]))


def test_the_height_curve_is_the_published_one_at_every_phase() -> None:
    phi = torch.linspace(0.0, 2.0 * math.pi, 101, dtype=torch.float64)[:-1]
    x = ((phi + math.pi) % (2.0 * math.pi)) / (2.0 * math.pi)
    up, down = 2.0 * x, 2.0 * x - 1.0
    published = torch.where(x <= 0.5, 3 * up**2 - 2 * up**3, 1.0 - (3 * down**2 - 2 * down**3))

    found = swing_height((phi / (2.0 * math.pi)).float(), torch.tensor(1.0))

    torch.testing.assert_close(found, published.float(), atol=1e-6, rtol=0)


def test_feet_on_the_curve_give_1_and_distances_add_up() -> None:
    view = walking(left=0.5)  # the right foot at 0.1: t = 0.8, height 0.1 * (1.92 - 1.024)
    view.sensor("left_pos")[:, 2] = torch.tensor([0.0, 0.06])
    view.sensor("right_pos")[:, 2] = torch.tensor([0.0896, 0.0896 + 0.08])

    # Row 1: (0.06^2 + 0.08^2) / 0.01 = 1.
    expected = torch.tensor([1.0, math.exp(-1.0)])
    found = value(view, FeetFollowHeightCurve, ("left_pos", "right_pos"), CURVE)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_rows_slower_forward_than_the_least_speed_get_nothing_and_backward_is_standing() -> None:
    view = walking()
    for name in ("left_pos", "right_pos"):
        view.sensor(name)[:, 2] = 0.05
    view.sensor("linvel")[:, 0] = torch.tensor([0.3, -5.0])
    sensors = ("left_pos", "right_pos")

    gated = value(view, FeetFollowHeightCurve, sensors, {**CURVE, "min_forward_speed": 0.3})
    open_to_all = value(view, FeetFollowHeightCurve, sensors, CURVE)

    assert (gated > 0.0).tolist() == [True, False]
    assert (open_to_all > 0.0).tolist() == [True, True]


def airborne(**params: Any) -> tuple[EnvView, FeetAirTime]:
    """Return a view whose twist asks for 0.6 m/s, and the term on both feet."""
    view = make_view()
    view.commands["twist"] = torch.tensor([[0.6, 0.0, 0.0]] * 2)
    feet = (("left_contact",), ("right_contact",))
    term: FeetAirTime = bind_term(
        TermCfg(func=FeetAirTime, params={"sensors": feet, **AIR, **params}), view, "rewards.air"
    )
    return view, term


def test_a_foot_counts_while_its_time_in_the_air_is_inside_the_window() -> None:
    view, term = airborne()
    left, right = view.sensor("left_contact"), view.sensor("right_contact")
    right.fill_(1.0)
    seen = []
    # Steps of 0.02 s: in the air for 0.02, 0.04, 0.06, 0.08, down, 0.02, 0.04 s.
    for contact in (0, 0, 0, 0, 1, 0, 0):
        left.fill_(contact)
        seen.append(float(term()[0]))

    assert seen == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    torch.testing.assert_close(term.air_time, torch.tensor([[0.04, 0.0]] * 2))


def test_both_feet_count_and_a_reset_puts_its_rows_on_the_ground() -> None:
    view, term = airborne()
    for name in ("left_contact", "right_contact"):
        view.sensor(name).fill_(0.0)
    term()
    assert term().tolist() == [2.0, 2.0]

    term.reset(mask(1, 0))

    assert term().tolist() == [0.0, 2.0]
    assert set(term.state_dict()) == {"air_time"}


def test_a_foot_touches_where_any_of_its_sensors_does() -> None:
    view, term = airborne(sensors=(("left_contact", "right_contact"),))
    view.sensor("left_contact").fill_(0.0)
    view.sensor("right_contact")[:] = torch.tensor([[0.0], [1.0]])
    term()

    assert term().tolist() == [1.0, 0.0]


def test_time_in_the_air_pays_only_where_motion_is_asked_for() -> None:
    view, term = airborne()
    view.command("twist")[:] = torch.tensor([[0.3, 0.4, 0.0], [0.0, 0.3, -0.4]])  # 0.5 is not enough, 0.7 is
    for name in ("left_contact", "right_contact"):
        view.sensor(name).fill_(0.0)
    term()

    assert term().tolist() == [0.0, 2.0]


@pytest.mark.parametrize("sensors", [(), (("left_contact",), ())])
def test_a_foot_without_a_contact_sensor_is_refused(sensors: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(ConfigurationError, match="rewards.air: sensors are .* at least one a foot"):
        airborne(sensors=sensors)


def test_a_missing_contact_sensor_is_named() -> None:
    """FR-58."""
    with pytest.raises(ConfigurationError, match="rewards.air: unknown sensor 'left_contac': did you mean"):
        airborne(sensors=(("left_contac",),))


def test_the_tilt_of_feet_is_the_horizontal_part_of_their_quaternions() -> None:
    view = make_view()
    roll, pitch = math.sin(0.1), math.sin(0.2)
    view.sensors["left_quat"] = torch.tensor([[math.cos(0.1), roll, 0.0, 0.0]] * 2)
    view.sensors["right_quat"] = torch.tensor([[math.cos(0.2), 0.0, pitch, 0.0], [0.0, 0.0, 0.0, 1.0]])

    found = value(view, FeetTiltL2, ("left_quat", "right_quat"), {})

    torch.testing.assert_close(found, torch.tensor([roll**2 + pitch**2, roll**2]))


def test_a_sensor_that_is_no_quaternion_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="rewards.r: sensor 'left_pos' has 3 columns, a quaternion has 4"):
        value(make_view(), FeetTiltL2, ("left_pos",), {})
