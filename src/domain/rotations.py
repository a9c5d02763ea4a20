"""Quaternion arithmetic, (w, x, y, z), batched over leading axes; unit norm is assumed."""

import torch
from torch import Tensor


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Return the Hamilton product of two (..., 4) quaternions: first ``b``, then ``a``."""
    # By vectors instead of columns: a fourth of the operations, which are what a step on a GPU waits for.
    aw, bw, products = a[..., :1], b[..., :1], a * b
    real = products[..., :1] - products[..., 1:].sum(dim=-1, keepdim=True)
    cross = torch.linalg.cross(a[..., 1:], b[..., 1:])
    return torch.cat((real, cross.addcmul(aw, b[..., 1:]).addcmul(bw, a[..., 1:])), dim=-1)


def quat_conjugate(q: Tensor) -> Tensor:
    """Return the inverse of a unit quaternion (..., 4)."""
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors (..., 3) from the body frame of ``q`` (..., 4) into the world frame."""
    return _rotate(q[..., :1], q[..., 1:], v)


def quat_rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors (..., 3) from the world frame into the body frame of ``q`` (..., 4)."""
    return _rotate(q[..., :1], -q[..., 1:], v)


def _rotate(w: Tensor, xyz: Tensor, v: Tensor) -> Tensor:
    twice: Tensor = 2.0 * torch.linalg.cross(xyz, v)
    rotated: Tensor = torch.linalg.cross(xyz, twice).addcmul(w, twice).add(v)
    return rotated


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Return (..., 4) for rotations about fixed x, then y, then z, in rad."""
    half = 0.5 * torch.stack((roll, pitch, yaw), dim=-1)
    r, p, y = torch.stack((torch.cos(half), torch.sin(half)), dim=-1).unbind(-2)
    # (..., 8): every product of a cosine or sine of each, the cosines first, that of yaw changing fastest.
    ccc, ccs, csc, css, scc, scs, ssc, sss = (
        ((r.unsqueeze(-1) * p.unsqueeze(-2)).unsqueeze(-1) * y[..., None, None, :]).flatten(-3).unbind(-1)
    )
    return torch.stack((ccc + sss, scc - css, csc + scs, ccs - ssc), dim=-1)


def yaw_of(q: Tensor) -> Tensor:
    """Return the heading (...,) of (..., 4) quaternions in rad, in (-pi, pi]."""
    w, x, y, z = q.unbind(-1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Return angles in rad wrapped to [-pi, pi)."""
    return torch.remainder(angle + torch.pi, 2.0 * torch.pi) - torch.pi


def quat_yaw(q: Tensor) -> Tensor:
    """Return the turn about world z that has the heading of ``q``, (..., 4)."""
    half = 0.5 * yaw_of(q)
    zero = torch.zeros_like(half)
    return torch.stack((torch.cos(half), zero, zero, torch.sin(half)), dim=-1)


def quat_angle(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle (...,) in rad, in [0, pi], that turns ``a`` into ``b``, (..., 4); signs do not matter.

    It is 2 atan2(|xyz|, |w|) of the turn between them. As 4-vectors, ``a`` and ``b`` lie half of it apart, which
    their difference and sum tell as exactly and in a fourth of the operations.
    """
    apart, together = torch.linalg.vector_norm(a - b, dim=-1), torch.linalg.vector_norm(a + b, dim=-1)
    return 4.0 * torch.atan2(torch.minimum(apart, together), torch.maximum(apart, together))


def rot6(q: Tensor) -> Tensor:
    """Return the first two columns of the rotation matrix, row by row: (..., 6) as R00, R01, R10, R11, R20, R21."""
    axes = torch.eye(2, 3, dtype=q.dtype, device=q.device)
    columns = quat_rotate(q.unsqueeze(-2), axes.expand(*q.shape[:-1], 2, 3))
    return columns.transpose(-1, -2).flatten(-2)


def turn_about_z(yaw: Tensor, q: Tensor) -> Tensor:
    """Return quaternions (..., 4) turned by ``yaw`` (...,) rad about world z after what they were."""
    half = 0.5 * yaw.unsqueeze(-1)
    # The product (cos, 0, 0, sin) q: besides q itself only its mirrored columns (-z, -y, x, w) take part.
    w, x, y, z = q.unbind(-1)
    return (torch.cos(half) * q).addcmul(torch.sin(half), torch.stack((-z, -y, x, w), dim=-1))


def quat_slerp(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """Go the share ``t`` (...,) of the shorter way from ``a`` to ``b``, (..., 4), at constant speed."""
    turn = rotation_vector(quat_mul(b, quat_conjugate(a))) * t.unsqueeze(-1)
    angle = torch.linalg.vector_norm(turn, dim=-1, keepdim=True)
    # sin(angle / 2) / angle, which is 1/2 at 0.
    xyz = turn * 0.5 * torch.sinc(angle / (2.0 * torch.pi))
    return quat_mul(torch.cat((torch.cos(0.5 * angle), xyz), dim=-1), a)


def rotation_vector(q: Tensor) -> Tensor:
    """Return axis times angle (..., 3) in rad, of the turn by at most pi that ``q`` (..., 4) or ``-q`` stands for."""
    xyz = torch.where(q[..., :1] < 0.0, -q[..., 1:], q[..., 1:])
    sine = torch.linalg.vector_norm(xyz, dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(sine, q[..., :1].abs())
    return xyz * torch.where(sine > 0.0, angle / sine, 2.0)


def angular_velocity(quats: Tensor, dt: float) -> Tensor:
    """Return world angular velocities (frames, ..., 3), rad/s, of orientations (frames, ..., 4) that lie ``dt`` apart.

    Central differences over two steps, so a turn must stay below pi in that time; the end frames have their
    neighbours' values. Of two frames both have the one difference there is. A single frame is at rest.

    Source:
        unilab 1.5.2, motion conversion: q[t+1] q[t-1]^-1 over 2 dt.
    """
    frames = quats.shape[0]
    if frames == 1:
        return torch.zeros_like(quats[..., 1:])
    span = min(2, frames - 1)
    inner = rotation_vector(quat_mul(quats[span:], quat_conjugate(quats[:-span]))) / (span * dt)
    return torch.cat((inner[:1], inner, inner[-1:])) if span == 2 else torch.cat((inner, inner))
