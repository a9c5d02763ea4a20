"""Quaternions against known rotations, and their laws."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domain.rotations import (
    angular_velocity,
    quat_angle,
    quat_conjugate,
    quat_from_euler_xyz,
    quat_mul,
    quat_rotate,
    quat_rotate_inverse,
    quat_slerp,
    quat_yaw,
    rot6,
    rotation_vector,
    turn_about_z,
    wrap_to_pi,
    yaw_of,
)

HALF = math.sqrt(0.5)
IDENTITY = torch.tensor([1.0, 0.0, 0.0, 0.0])
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


def about_z(angle: Tensor) -> Tensor:
    zero = torch.zeros_like(angle)
    return torch.stack((torch.cos(angle / 2), zero, zero, torch.sin(angle / 2)), dim=-1)


@given(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), angles)
def test_the_yaw_turn_keeps_the_heading_and_drops_the_rest(roll: float, pitch: float, yaw: float) -> None:
    turn = quat_yaw(quat((roll, pitch, yaw)))

    torch.testing.assert_close(turn, quat((0.0, 0.0, yaw)))
    torch.testing.assert_close(quat_yaw(-quat((roll, pitch, yaw))), turn)


def test_angles_between_quaternions_ignore_their_signs() -> None:
    quarter = torch.tensor([HALF, HALF, 0.0, 0.0])

    angle = quat_angle(IDENTITY, torch.stack((IDENTITY, -IDENTITY, quarter, -quarter, torch.tensor([0.0, 0, 1, 0]))))

    torch.testing.assert_close(angle, torch.tensor([0.0, 0.0, math.pi / 2, math.pi / 2, math.pi]))


@given(triples, triples)
def test_an_angle_is_that_of_the_turn_between(a: tuple[float, float, float], b: tuple[float, float, float]) -> None:
    turn = quat_mul(quat_conjugate(quat(a)), quat(b))

    expected = 2.0 * torch.atan2(turn[1:].norm(), turn[0].abs())
    torch.testing.assert_close(quat_angle(quat(a), quat(b)), expected, atol=1e-12, rtol=1e-9)


@given(triples, angles)
def test_a_turn_about_z_is_the_product_with_it(euler: tuple[float, float, float], angle: float) -> None:
    yaw = torch.tensor(angle, dtype=torch.float64)

    torch.testing.assert_close(turn_about_z(yaw, quat(euler)), quat_mul(about_z(yaw), quat(euler)))


def test_small_angles_are_exact() -> None:
    torch.testing.assert_close(quat_angle(IDENTITY, about_z(torch.tensor(1e-5))), torch.tensor(1e-5), rtol=1e-5, atol=0)


def test_rot6_lists_two_columns_row_by_row() -> None:
    torch.testing.assert_close(rot6(IDENTITY), torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    # A quarter turn about z takes x to y and y to -x; one about x keeps x and takes y to z.
    torch.testing.assert_close(rot6(torch.tensor([HALF, 0, 0, HALF])), torch.tensor([0.0, -1.0, 1.0, 0.0, 0.0, 0.0]))
    torch.testing.assert_close(rot6(torch.tensor([HALF, HALF, 0, 0])), torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 1.0]))


@given(triples)
def test_rot6_is_made_of_the_rotated_axes(euler: tuple[float, float, float]) -> None:
    q, axes = quat(euler), torch.eye(3, dtype=torch.float64)[:2]

    columns = quat_rotate(q.expand(2, 4), axes)

    torch.testing.assert_close(rot6(q).reshape(3, 2), columns.T)


def test_slerp_has_constant_speed_and_goes_the_shorter_way() -> None:
    shares = torch.tensor([0.0, 0.25, 0.5, 1.0])
    start, end = about_z(torch.tensor(0.2)).expand(4, 4), about_z(torch.tensor(1.0)).expand(4, 4)

    expected = about_z(torch.tensor([0.2, 0.4, 0.6, 1.0]))
    torch.testing.assert_close(quat_slerp(start, end, shares), expected)
    torch.testing.assert_close(quat_slerp(start, -end, shares), expected)


def test_slerp_between_equal_orientations_stays() -> None:
    q = torch.tensor([HALF, HALF, 0.0, 0.0])

    torch.testing.assert_close(quat_slerp(q, q, torch.tensor(0.3)), q)
    torch.testing.assert_close(quat_slerp(q, -q, torch.tensor(0.3)), q)


@given(triples, triples, st.floats(0.0, 1.0))
def test_slerp_divides_the_angle(a: tuple[float, float, float], b: tuple[float, float, float], t: float) -> None:
    start, end = quat(a), quat(b)

    middle = quat_slerp(start, end, torch.tensor(t, dtype=torch.float64))

    whole = quat_angle(start, end)
    torch.testing.assert_close(quat_angle(start, middle), t * whole, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(quat_angle(middle, end), (1.0 - t) * whole, atol=1e-7, rtol=1e-7)


def test_a_rotation_vector_is_axis_times_angle() -> None:
    q = torch.stack((IDENTITY, about_z(torch.tensor(0.5)), -about_z(torch.tensor(0.5)), about_z(torch.tensor(-3.0))))

    torch.testing.assert_close(rotation_vector(q)[:, 2], torch.tensor([0.0, 0.5, 0.5, -3.0]))
    torch.testing.assert_close(rotation_vector(q)[:, :2], torch.zeros(4, 2))


def test_angular_velocity_of_a_steady_turn_is_its_rate_whatever_the_signs() -> None:
    quats = about_z(torch.arange(5) * 0.04)
    quats[2] = -quats[2]

    # 0.04 rad each 0.02 s.
    torch.testing.assert_close(angular_velocity(quats, 0.02), torch.tensor([[0.0, 0.0, 2.0]]).expand(5, 3))


def test_angular_velocity_is_in_the_world_frame() -> None:
    lying = torch.tensor([HALF, HALF, 0.0, 0.0])
    quats = quat_mul(about_z(torch.arange(3) * 0.1), lying.expand(3, 4))

    torch.testing.assert_close(angular_velocity(quats, 0.1), torch.tensor([[0.0, 0.0, 1.0]]).expand(3, 3))


def test_angular_velocity_copies_its_ends_from_the_inner_frames() -> None:
    velocity = angular_velocity(about_z(torch.tensor([0.0, 0.1, 0.4, 0.9])), 0.5)[:, 2]

    # (0.4 - 0.0) / 1 s and (0.9 - 0.1) / 1 s.
    torch.testing.assert_close(velocity, torch.tensor([0.4, 0.4, 0.8, 0.8]))


def test_angular_velocity_of_short_and_wide_sequences() -> None:
    two = about_z(torch.tensor([0.0, 0.1]))
    wide = about_z(torch.arange(3).unsqueeze(1) * torch.tensor([0.1, 0.2]))

    torch.testing.assert_close(angular_velocity(two, 0.1)[:, 2], torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(angular_velocity(two[:1], 0.1), torch.zeros(1, 3))
    torch.testing.assert_close(angular_velocity(wide, 0.1)[1, :, 2], torch.tensor([1.0, 2.0]))
