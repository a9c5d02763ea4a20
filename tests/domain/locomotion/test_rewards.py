"""Rewards about feet, on phases and sensors set by hand."""

import math
from typing import Any

import pytest
import torch

from domain.errors import ConfigurationError
from domain.locomotion.rewards import FeetContactMatchesGait, SwingFeetHeight
from domain.managers.terms import TermCfg, bind_term
from domain.view import EnvView
from tests.support.small_env import make_view

CONTACT: dict[str, Any] = {"clock": "gait", "stance": 0.6, "threshold": 0.5}
SWING: dict[str, Any] = {"clock": "gait", "stance": 0.6, "target": 0.1, "sigma": 0.01}


def walking() -> EnvView:
    """Left foot in stance, right foot in swing."""
    view = make_view()
    view.commands["gait"] = torch.tensor([[0.1, 0.7]] * 2)
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
