"""Observations of a G1 whose torso has been put by hand; quarter turns give matrices that a reader can check."""

import math

import pytest
import torch
from torch import Tensor

from domain.motion import observations
from domain.motion.command import MotionCommand
from domain.view import EnvView
from tests.support.host_sync import ForbidHostSync
from tests.support.standing import tracked_view

LEFT = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])
"""A quarter turn about z."""
FORWARD = torch.tensor([math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0])
"""A quarter turn about y: x points down."""
STRAIGHT = torch.tensor([1.0, 0.0, 0.0, 0.0])


@pytest.fixture
def turned() -> tuple[EnvView, MotionCommand]:
    """The robot's torso at (1, 2, 0.8), looking along y; the reference's 1 m before it and 0.1 m lower, along x."""
    view, motion = tracked_view(2)
    motion.robot_anchor_pos[:] = torch.tensor([1.0, 2.0, 0.8])
    motion.robot_anchor_quat[:] = LEFT
    motion.anchor_pos[:] = torch.tensor([1.0, 3.0, 0.7])
    motion.anchor_quat[:] = STRAIGHT
    return view, motion


def check(actual: Tensor, row: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor([row, row]), atol=1e-6, rtol=0)


def test_the_references_anchor_is_seen_ahead_and_below(turned: tuple[EnvView, MotionCommand]) -> None:
    check(observations.motion_anchor_pos_b(turned[0], command="motion"), [1.0, 0.0, -0.1])


def test_a_robot_that_leans_sees_it_in_its_own_axes(turned: tuple[EnvView, MotionCommand]) -> None:
    view, motion = turned
    motion.robot_anchor_quat[:] = FORWARD

    # World (0, 1, -0.1); the robot's x points down and its z ahead.
    check(observations.motion_anchor_pos_b(view, command="motion"), [0.1, 1.0, 0.0])


def test_the_references_turn_is_seen_from_the_robot(turned: tuple[EnvView, MotionCommand]) -> None:
    # A quarter turn to the right: columns (0, -1, 0) and (1, 0, 0), row by row.
    check(observations.motion_anchor_ori_b(turned[0], command="motion"), [0.0, 1.0, -1.0, 0.0, 0.0, 0.0])


def test_equal_orientations_are_the_identity_whatever_the_signs(turned: tuple[EnvView, MotionCommand]) -> None:
    view, motion = turned
    motion.anchor_quat[:] = -LEFT

    check(observations.motion_anchor_ori_b(view, command="motion"), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0])


def test_bodies_are_seen_from_the_anchor_in_order(turned: tuple[EnvView, MotionCommand]) -> None:
    view, motion = turned
    motion.robot_body_pos[:, 0] = torch.tensor([1.0, 2.0, 0.3])
    motion.robot_body_pos[:, 13] = torch.tensor([0.5, 2.25, 0.8])

    value = observations.robot_body_pos_b(view, command="motion")

    assert value.shape == (2, 42)
    check(value[:, :3], [0.0, 0.0, -0.5])
    check(value[:, 21:24], [0.0, 0.0, 0.0])  # the anchor itself, body 7
    check(value[:, 39:], [0.25, 0.5, 0.0])


def test_orientations_of_bodies_are_seen_from_the_anchor_in_order(turned: tuple[EnvView, MotionCommand]) -> None:
    view, motion = turned
    motion.robot_body_quat[:, 0] = STRAIGHT
    motion.robot_body_quat[:, 13] = -LEFT

    value = observations.robot_body_ori_b(view, command="motion")

    assert value.shape == (2, 84)
    check(value[:, :6], [0.0, 1.0, -1.0, 0.0, 0.0, 0.0])
    check(value[:, 42:48], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    check(value[:, 78:], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0])


def test_rows_do_not_mix(turned: tuple[EnvView, MotionCommand]) -> None:
    view, motion = turned
    before = observations.robot_body_pos_b(view, command="motion")
    motion.robot_body_pos[0, 4] += 1.0

    after = observations.robot_body_pos_b(view, command="motion")

    assert torch.equal(after[1], before[1])
    assert not torch.equal(after[0], before[0])


def test_no_observation_waits_for_the_device(turned: tuple[EnvView, MotionCommand]) -> None:
    with ForbidHostSync():
        for term in (
            observations.motion_anchor_pos_b,
            observations.motion_anchor_ori_b,
            observations.robot_body_pos_b,
            observations.robot_body_ori_b,
        ):
            term(turned[0], command="motion")
