"""Quaternions against known rotations, and their laws."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domain.rotations import (
    quat_conjugate,
    quat_from_euler_xyz,
    quat_mul,
    quat_rotate,
    quat_rotate_inverse,
    wrap_to_pi,
    yaw_of,
)

HALF = math.sqrt(0.5)
angles = st.floats(-3.1, 3.1)
triples = st.tuples(angles, angles, angles)


def quat(euler: tuple[float, float, float]) -> Tensor:
    return quat_from_euler_xyz(*torch.tensor(euler, dtype=torch.float64))


def test_a_quarter_turn_about_z_takes_x_to_y() -> None:
    turn = torch.tensor([HALF, 0.0, 0.0, HALF])

    torch.testing.assert_close(quat_rotate(turn, torch.tensor([1.0, 0.0, 0.0])), torch.tensor([0.0, 1.0, 0.0]))


def test_the_inverse_turns_back() -> None:
    turn = torch.tensor([HALF, 0.0, 0.0, HALF])

    torch.testing.assert_close(quat_rotate_inverse(turn, torch.tensor([0.0, 1.0, 0.0])), torch.tensor([1.0, 0.0, 0.0]))


def test_a_product_turns_first_by_its_right_factor() -> None:
    about_x, about_z = torch.tensor([HALF, HALF, 0.0, 0.0]), torch.tensor([HALF, 0.0, 0.0, HALF])

    # z goes to -y about x, then to x about z.
    rotated = quat_rotate(quat_mul(about_z, about_x), torch.tensor([0.0, 0.0, 1.0]))

    torch.testing.assert_close(rotated, torch.tensor([1.0, 0.0, 0.0]))


def test_euler_angles_turn_about_fixed_x_then_y_then_z() -> None:
    quarter = torch.tensor(math.pi / 2)
    zero = torch.tensor(0.0)

    both = quat_from_euler_xyz(quarter, zero, quarter)

    expected = quat_mul(torch.tensor([HALF, 0.0, 0.0, HALF]), torch.tensor([HALF, HALF, 0.0, 0.0]))
    torch.testing.assert_close(both, expected)


@given(triples, triples, triples)
def test_products_associate_and_keep_the_norm(
    a: tuple[float, float, float], b: tuple[float, float, float], c: tuple[float, float, float]
) -> None:
    left, right = quat_mul(quat_mul(quat(a), quat(b)), quat(c)), quat_mul(quat(a), quat_mul(quat(b), quat(c)))

    torch.testing.assert_close(left, right)
    torch.testing.assert_close(left.norm(), torch.tensor(1.0, dtype=torch.float64))


@given(triples, triples)
def test_rotating_keeps_lengths_and_the_conjugate_undoes_it(
    euler: tuple[float, float, float], vector: tuple[float, float, float]
) -> None:
    q, v = quat(euler), torch.tensor(vector, dtype=torch.float64)

    torch.testing.assert_close(quat_rotate(q, v).norm(), v.norm())
    torch.testing.assert_close(quat_rotate_inverse(q, quat_rotate(q, v)), v, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(quat_mul(q, quat_conjugate(q)), torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


@given(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), angles)
def test_the_heading_of_euler_angles_is_their_yaw(roll: float, pitch: float, yaw: float) -> None:
    torch.testing.assert_close(yaw_of(quat((roll, pitch, yaw))), torch.tensor(yaw, dtype=torch.float64))


@given(st.floats(-20.0, 20.0))
def test_wrapping_changes_an_angle_by_whole_turns(angle: float) -> None:
    wrapped = wrap_to_pi(torch.tensor(angle, dtype=torch.float64))
    turns = (angle - wrapped) / (2 * math.pi)

    assert -math.pi <= wrapped <= math.pi
    torch.testing.assert_close(turns, turns.round(), atol=1e-9, rtol=0)


def test_batches_broadcast_over_rows() -> None:
    rows = torch.tensor([[1.0, 0.0, 0.0, 0.0], [HALF, 0.0, 0.0, HALF]])
    x = torch.tensor([[1.0, 0.0, 0.0]]).expand(2, 3)

    torch.testing.assert_close(quat_rotate(rows, x), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
