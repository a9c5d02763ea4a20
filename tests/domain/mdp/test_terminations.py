"""Termination terms on states set by hand."""

import math

import pytest
import torch

from domain.entity import EntitySelection, EntitySelector
from domain.errors import ConfigurationError
from domain.managers.terms import check_params
from domain.mdp import terminations
from tests.support.small_env import make_view


def test_the_time_limit_is_reached_at_its_last_step() -> None:
    view = make_view()
    view.episode_length.copy_(torch.tensor([99, 100]))

    assert terminations.time_out(view).tolist() == [False, True]


def test_a_base_tilted_further_than_the_limit_ends() -> None:
    view = make_view()
    for row, tilt in enumerate((0.4, 0.6)):
        view.state.qpos[row, 3:7] = torch.tensor([math.cos(tilt / 2), math.sin(tilt / 2), 0.0, 0.0])

    assert terminations.bad_orientation(view, limit=torch.tensor(0.5)).tolist() == [False, True]


def test_a_turn_about_the_vertical_is_no_tilt() -> None:
    view = make_view()
    view.state.qpos[:, 3:7] = torch.tensor([0.0, 0.0, 0.0, 1.0])

    assert not terminations.bad_orientation(view, limit=torch.tensor(0.1)).any()


def test_an_up_vector_further_from_the_vertical_than_the_limit_ends() -> None:
    view = make_view(4)
    angles = torch.tensor([0.0, 0.43, 0.44, 3.0])  # 25 degrees are 0.4363 rad
    view.sensor("upvector")[:, 0], view.sensor("upvector")[:, 2] = torch.sin(angles), torch.cos(angles)

    ended = terminations.up_vector_tilted(view, limit=torch.tensor(math.radians(25.0)), sensor="upvector")

    assert ended.tolist() == [False, False, True, True]


def test_a_limit_in_degrees_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"terminations.tilt.params.limit is 60.0, outside \(0.0, 3.14"):
        check_params(terminations.bad_orientation, {"limit": 60.0}, "terminations.tilt")


def test_a_low_base_ends() -> None:
    view = make_view()
    view.state.qpos[:, 2] = torch.tensor([0.1, 0.3])

    assert terminations.base_height_below(view, minimum=torch.tensor(0.2)).tolist() == [True, False]


def test_any_chosen_joint_outside_its_bounds_ends() -> None:
    view = make_view()
    knee = EntitySelection(EntitySelector(joints=("knee",)), view.entity("robot"))
    view.state.qpos[:, 7:] = torch.tensor([[9.0, 0.0, 9.0], [0.0, 1.5, 0.0]])

    ended = terminations.joint_pos_outside(view, joints=knee, bounds=torch.tensor([-1.0, 1.0]))

    assert ended.tolist() == [False, True]
