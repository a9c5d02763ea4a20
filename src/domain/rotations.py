"""Quaternion arithmetic, (w, x, y, z), batched over leading axes; unit norm is assumed."""

import torch
from torch import Tensor


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Return the Hamilton product of two (..., 4) quaternions: first ``b``, then ``a``."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        dim=-1,
    )


def quat_conjugate(q: Tensor) -> Tensor:
    """Return the inverse of a unit quaternion (..., 4)."""
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors (..., 3) from the body frame of ``q`` (..., 4) into the world frame."""
    xyz = q[..., 1:]
    t: Tensor = 2.0 * torch.linalg.cross(xyz, v)
    rotated: Tensor = v + q[..., :1] * t + torch.linalg.cross(xyz, t)
    return rotated


def quat_rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors (..., 3) from the world frame into the body frame of ``q`` (..., 4)."""
    return quat_rotate(quat_conjugate(q), v)


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Return (..., 4) for rotations about fixed x, then y, then z, in rad."""
    cr, sr = torch.cos(roll / 2), torch.sin(roll / 2)
    cp, sp = torch.cos(pitch / 2), torch.sin(pitch / 2)
    cy, sy = torch.cos(yaw / 2), torch.sin(yaw / 2)
    return torch.stack(
        (
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ),
        dim=-1,
    )


def yaw_of(q: Tensor) -> Tensor:
    """Return the heading (...,) of (..., 4) quaternions in rad, in (-pi, pi]."""
    w, x, y, z = q.unbind(-1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Return angles in rad wrapped to [-pi, pi)."""
    return torch.remainder(angle + torch.pi, 2.0 * torch.pi) - torch.pi
