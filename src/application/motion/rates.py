"""Whether a clip's rate and velocities belong together."""

import torch
from torch import Tensor

from application.motion.findings import Finding
from application.motion.trajectory import rates
from domain.motion.clip import MotionClip

AT_REST = 0.02
"""rad/s and m/s: root mean square below which velocities say nothing about a rate."""
ALIKE = 0.9
"""Correlation from which two accounts of a velocity show one motion."""
SAME_SPEED = 1.25
"""Factor up to which two accounts of a speed agree."""


def rate_problem(clip: MotionClip) -> Finding | None:
    """Say where ``joint_vel`` is not what ``joint_pos`` does at ``fps``; None where it is, or the clip is at rest."""
    moved, given = rates(clip.joint_pos.double(), clip.fps), clip.joint_vel.double()
    if _rms(moved) < AT_REST and _rms(given) < AT_REST:
        return None
    factor, alike = _fit(given, moved)
    if alike < ALIKE:
        return Finding(
            what=f"joint_vel is not the velocity of joint_pos (correlation {alike:.2f}): its columns may be in another "
            "order",
            options="",
        )
    if not 1.0 / SAME_SPEED < factor < SAME_SPEED:
        fps = clip.fps * factor
        return Finding(
            what=f"fps says {clip.fps:g} and the velocities say {fps:.3g}: joint_pos moves {1.0 / factor:.3g} times as "
            f"fast as joint_vel, and the clip is over (motion_clip_end) at frame {clip.frames - 1} after "
            f"{(clip.frames - 1) / clip.fps:.2f} s instead of {(clip.frames - 1) / fps:.2f} s",
            options=f"--fps-in {fps:.3g}",
        )
    return None


def body_rate_problem(clip: MotionClip) -> Finding | None:
    """Say where ``body_lin_vel_w`` is not what ``body_pos_w`` does at ``fps``; None where it is, or all are at rest."""
    moved, given = rates(clip.body_pos.double(), clip.fps), clip.body_lin_vel.double()
    if _rms(moved) < AT_REST and _rms(given) < AT_REST:
        return None
    factor, alike = _fit(given, moved)
    if alike < ALIKE or not 1.0 / SAME_SPEED < factor < SAME_SPEED:
        return Finding(
            what=f"body_lin_vel_w is not the velocity of body_pos_w: {factor:.2f} times it (correlation {alike:.2f})",
            options="",
        )
    return None


def _fit(given: Tensor, moved: Tensor) -> tuple[float, float]:
    """Return the factor that makes ``moved`` most like ``given``, and their correlation."""
    both, own, other = (given * moved).sum(), moved.square().sum(), given.square().sum()
    return float(both / own), float(both / torch.sqrt(own * other).clamp(min=1e-12))


def _rms(value: Tensor) -> float:
    return float(value.square().mean().sqrt())
