"""Velocity and pose commands."""

import math
from typing import Any

import pytest
import torch

from domain.errors import ConfigurationError
from domain.managers.command import CommandManager, CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.mdp.commands import UniformPoseCommand, UniformVelocityCommand
from domain.mdp.resets import ResetRootUniform
from domain.view import EnvView
from tests.support.small_env import draw_block, make_env, make_view, mask

MANY = 2000
STILL: dict[str, Any] = {"lin_vel_x": (0.0, 0.0), "lin_vel_y": (0.0, 0.0), "ang_vel_z": (0.0, 0.0)}
HEADING: dict[str, Any] = {"heading": (1.0, 1.0), "heading_share": 1.0, "heading_stiffness": 0.5}


def manager(num_envs: int = MANY, **params: Any) -> tuple[CommandManager, EnvView]:
    view = make_view(num_envs)
    ranges = {"lin_vel_x": (0.5, 1.0), "lin_vel_y": (-0.5, 0.5), "ang_vel_z": (-2.0, 2.0), "standing_share": 0.0}
    cfg = CommandTermCfg(func=UniformVelocityCommand, params={**ranges, **params}, resampling_time_s=(10.0, 10.0))
    commands = CommandManager({"twist": cfg}, view)
    draw_block(view)
    view.writes.begin_step()
    commands.reset(torch.ones(num_envs, dtype=torch.bool))
    return commands, view


def test_commands_fill_their_ranges() -> None:
    value = manager()[1].command("twist")

    low, high = torch.tensor([0.5, -0.5, -2.0]), torch.tensor([1.0, 0.5, 2.0])
    assert ((value >= low) & (value <= high)).all()
    torch.testing.assert_close(value.mean(dim=0), (low + high) / 2, atol=0.1, rtol=0)


def test_ranges_from_0_to_0_give_exact_zeros() -> None:
    """FR-44."""
    assert not manager(**STILL)[1].command("twist").any()


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.3, 0.26, 0.34), (1.0, 1.0, 1.0)])
def test_the_share_of_standing_rows(share: float, low: float, high: float) -> None:
    """FR-43."""
    value = manager(standing_share=share)[1].command("twist")

    standing = (value == 0.0).all(dim=1).float().mean()
    assert low <= standing <= high


def test_slow_commands_become_zero_but_still_turn() -> None:
    value = manager(lin_vel_x=(-1.0, 1.0), min_speed=0.5)[1].command("twist")

    speed = value[:, :2].norm(dim=1)
    assert ((speed == 0.0) | (speed >= 0.5)).all()
    assert (speed == 0.0).any()
    assert (value[speed == 0.0, 2] != 0.0).all()


@pytest.mark.parametrize(
    ("vx", "vy", "seen"),
    [(0.2, 0.0, [0.0, 0.0]), (0.0, -0.2, [0.0, 0.0]), (0.2001, 0.0, [0.2001, 0.0]), (0.15, 0.15, [0.15, 0.15])],
)
def test_the_least_speed_itself_still_stands(vx: float, vy: float, seen: list[float]) -> None:
    planar = {"lin_vel_x": (vx, vx), "lin_vel_y": (vy, vy), "ang_vel_z": (0.7, 0.7)}
    value = manager(2, **planar, min_speed=0.2)[1].command("twist")

    torch.testing.assert_close(value, torch.tensor([[*seen, 0.7]] * 2))


def test_a_heading_turns_towards_it_by_stiffness_times_error_inside_the_yaw_range() -> None:
    _, view = manager(2, **HEADING)
    torch.testing.assert_close(view.command("twist")[:, 2], torch.full((2,), 0.5))

    _, view = manager(2, **{**HEADING, "heading_stiffness": 10.0})
    assert view.command("twist")[:, 2].tolist() == [2.0, 2.0]


def test_a_heading_takes_the_short_way_round() -> None:
    commands, view = manager(2, **{**HEADING, "heading": (-3.0, -3.0)})
    view.state.qpos[:, 3:7] = torch.tensor([math.cos(1.5), 0.0, 0.0, math.sin(1.5)])  # yaw 3
    view.writes.begin_step()
    commands.compute(mask(1, 1))

    # From 3 to -3 rad through pi are 2 pi - 6 rad.
    torch.testing.assert_close(view.command("twist")[:, 2], torch.full((2,), 0.5 * (2 * math.pi - 6)))


def test_a_heading_with_an_empty_yaw_range_does_not_turn() -> None:
    """FR-44."""
    assert not manager(2, **{**HEADING, "ang_vel_z": (0.0, 0.0)})[1].command("twist")[:, 2].any()


def test_the_share_of_rows_with_a_heading() -> None:
    value = manager(**{**HEADING, "heading_share": 0.3, "ang_vel_z": (1.0, 2.0)})[1].command("twist")

    # Rows with a heading want 0.5 rad/s, less than the range holds, and are clamped to 1 rad/s.
    assert 0.26 <= (value[:, 2] == 1.0).float().mean() <= 0.34


def test_standing_rows_have_no_heading() -> None:
    commands, view = manager(standing_share=1.0, **HEADING)
    view.writes.begin_step()
    commands.compute(torch.ones(MANY, dtype=torch.bool))

    assert not view.command("twist").any()


def test_after_a_reset_the_heading_is_seen_from_the_new_pose() -> None:
    """FR-34: every row starts at yaw 1, where the heading error is 0."""
    params = {"pose": {"yaw": (1.0, 1.0)}, "velocity": {}}
    twist = CommandTermCfg(
        func=UniformVelocityCommand,
        params={**STILL, "ang_vel_z": (-2.0, 2.0), "standing_share": 0.0, **HEADING},
        resampling_time_s=(10.0, 10.0),
    )
    env = make_env(
        commands={"twist": twist}, events={"root": EventTermCfg(func=ResetRootUniform, mode="reset", params=params)}
    )

    torch.testing.assert_close(env.view.command("twist"), torch.zeros(2, 3), atol=1e-6, rtol=0)


def test_tracking_errors_are_distances_from_the_sensors() -> None:
    commands, view = manager(2, **STILL, lin_vel_sensor="linvel", ang_vel_sensor="gyro")
    view.sensor("linvel")[:] = torch.tensor([3.0, 4.0, 9.0])
    view.sensor("gyro")[:] = torch.tensor([9.0, 9.0, -2.0])
    commands.compute(mask(1, 1))

    assert commands.metrics()["twist/error_vel_xy"].tolist() == [5.0, 5.0]
    assert commands.metrics()["twist/error_vel_yaw"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"lin_vel_x": (1.0, -1.0)}, "low is above high"),
        ({"ang_vel_z": (math.nan, 1.0)}, "two finite numbers"),
        ({"standing_share": 1.5}, r"standing_share is 1.5, outside \[0.0, 1.0\]"),
        ({"heading": (0.0, 1.0)}, "need heading, heading_share and heading_stiffness together"),
        ({"heading_stiffness": 1.0}, "need heading, heading_share and heading_stiffness together"),
        ({"lin_vel_sensor": "linve"}, "unknown sensor 'linve': did you mean 'linvel'"),
        ({"lin_vel": (0.0, 1.0)}, "unknown parameter 'lin_vel'"),
    ],
)
def test_impossible_commands_are_refused(params: dict[str, Any], match: str) -> None:
    """FR-44, FR-58."""
    with pytest.raises(ConfigurationError, match=f"commands.twist.*{match}"):
        manager(2, **params)


def test_a_pose_is_drawn_in_its_ranges_as_position_and_unit_quaternion() -> None:
    view = make_view(MANY)
    pose = {"x": (1.0, 2.0), "yaw": (math.pi / 2, math.pi / 2)}
    cfg = CommandTermCfg(func=UniformPoseCommand, params={"pose": pose}, resampling_time_s=(1.0, 1.0))
    commands = CommandManager({"pose": cfg}, view)
    assert view.command("pose")[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    draw_block(view)
    commands.reset(torch.ones(MANY, dtype=torch.bool))
    value = view.command("pose")

    torch.testing.assert_close(value[:, 0].mean(), torch.tensor(1.5), atol=0.05, rtol=0)
    assert not value[:, 1:3].any()
    half = math.sqrt(0.5)
    torch.testing.assert_close(value[0, 3:], torch.tensor([half, 0.0, 0.0, half]))
