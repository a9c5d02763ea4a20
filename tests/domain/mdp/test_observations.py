"""Observation terms on states set by hand."""

import math

import torch

from domain.entity import EntitySelection, EntitySelector
from domain.mdp import observations
from domain.view import EnvView
from tests.support.small_env import make_view

HALF = math.sqrt(0.5)


def turned() -> EnvView:
    """A base that rolled a quarter turn about x: its y axis points up."""
    view = make_view()
    view.state.qpos[:, 3:7] = torch.tensor([HALF, HALF, 0.0, 0.0])
    return view


def selection(view: EnvView, *joints: str) -> EntitySelection:
    return EntitySelection(EntitySelector(joints=joints or None), view.entity("robot"))


def test_gravity_points_down_in_the_base_frame() -> None:
    torch.testing.assert_close(observations.projected_gravity(turned())[0], torch.tensor([0.0, -1.0, 0.0]))


def test_gravity_of_an_up_sensor_is_minus_its_reading() -> None:
    view = make_view()
    view.sensor("upvector")[:] = torch.tensor([0.1, 0.2, 0.97])

    assert observations.projected_gravity_from_up_sensor(view, sensor="upvector")[0, 2] == -torch.tensor(0.97)


def test_the_linear_velocity_is_turned_into_the_base_frame() -> None:
    view = turned()
    view.state.qvel[:, :3] = torch.tensor([0.0, 0.0, 2.0])

    torch.testing.assert_close(observations.base_lin_vel(view)[0], torch.tensor([0.0, 2.0, 0.0]))


def test_the_angular_velocity_is_in_the_base_frame_already() -> None:
    view = turned()
    view.state.qvel[:, 3:6] = torch.tensor([1.0, 2.0, 3.0])

    assert observations.base_ang_vel(view)[0].tolist() == [1.0, 2.0, 3.0]


def test_the_height_is_a_column() -> None:
    assert observations.base_height(make_view()).tolist() == [[0.5], [0.5]]


def test_joint_positions_are_relative_to_their_defaults_and_may_show_the_encoder_bias() -> None:
    view = make_view()
    view.state.qpos[:, 7:] += torch.tensor([0.5, 0.0, -0.5])
    view.entity("robot").encoder_bias[:, 0] = 0.25

    plain = observations.joint_pos_rel(view, joints=selection(view))
    biased = observations.joint_pos_rel(view, joints=selection(view, "hip"), biased=True)

    torch.testing.assert_close(plain[0], torch.tensor([0.5, 0.0, -0.5]))
    torch.testing.assert_close(biased[0], torch.tensor([0.75]))


def test_joint_velocities_follow_the_selection() -> None:
    view = make_view()
    view.state.qvel[:, 6:] = torch.tensor([1.0, 2.0, 3.0])

    assert observations.joint_vel_rel(view, joints=selection(view, "ankle", "hip"))[0].tolist() == [1.0, 3.0]


def test_cosines_come_before_sines() -> None:
    view = make_view()
    view.state.qpos[:, 7:9] = torch.tensor([0.0, math.pi / 2])

    value = observations.joint_pos_cos_sin(view, joints=selection(view, "hip", "knee"))

    torch.testing.assert_close(value[0], torch.tensor([1.0, 0.0, 0.0, 1.0]), atol=1e-6, rtol=0)


def test_sensors_commands_and_actions_are_shown_as_they_are() -> None:
    view = make_view()
    view.commands["twist"] = torch.ones(2, 3)

    assert observations.sensor(view, sensor="gyro") is view.sensor("gyro")
    assert observations.generated_command(view, command="twist") is view.commands["twist"]
    assert observations.last_action(view) is view.action
