"""Whether a clip's rate and velocities belong together."""

from collections.abc import Sequence

import torch
from torch import Tensor

from application.motion.findings import REORDER, Finding
from application.motion.trajectory import continuous, rates
from domain.motion.clip import MotionClip
from domain.motion.command import FPS_TOLERANCE
from domain.rotations import angular_velocity

AT_REST = 0.02
"""rad/s and m/s: root mean square below which velocities say nothing about a rate."""
ALIKE = 0.9
"""Correlation from which two accounts of a velocity show one motion."""
SAME_SPEED = 1.25
"""Factor up to which two accounts of a speed agree."""
NOT_ITS_OWN = 0.5
"""Squared share of a velocity from which what it differs by is no noise."""
ANOTHERS = 0.1
"""Squared share up to which it is another joint's or body's."""


def control_rate_problem(clip: MotionClip, rate: float) -> Finding | None:
    """Say that a clip has not one frame for each control step of ``rate`` in Hz; else None."""
    if abs(clip.fps / rate - 1.0) <= FPS_TOLERANCE:
        return None
    what = f"its rate is {clip.fps:g} fps and control runs at {rate:g} Hz, one frame a step"
    return Finding(what=what, options=f"--fps {rate:g}")


def rate_problem(clip: MotionClip) -> Finding | None:
    """Say where ``joint_vel`` is not what ``joint_pos`` does at ``fps``; None where it is, or the clip is at rest."""
    moved, given = rates(clip.joint_pos.double(), clip.fps), clip.joint_vel.double()
    if _rms(moved) < AT_REST and _rms(given) < AT_REST:
        return None
    factor, alike = _fit(given, moved)
    mixed = _exchanged(given, moved, clip.joints)
    if mixed is not None:
        return Finding(what=f"joint_vel of {mixed}: its columns are in another order", mend=REORDER)
    if alike < ALIKE:
        return Finding(
            what=f"joint_vel is not the velocity of joint_pos (correlation {alike:.2f}): its columns may be in another "
            "order",
            mend=REORDER,
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
    """Say where bodies' velocities are not what their poses do at ``fps``; None where they are, or all are at rest."""
    turned = angular_velocity(continuous(clip.body_quat.double()), 1.0 / clip.fps)
    for key, of, given, moved in (
        ("body_lin_vel_w", "body_pos_w", clip.body_lin_vel.double(), rates(clip.body_pos.double(), clip.fps)),
        ("body_ang_vel_w", "body_quat_w", clip.body_ang_vel.double(), turned),
    ):
        if _rms(moved) < AT_REST and _rms(given) < AT_REST:
            continue
        factor, alike = _fit(given, moved)
        mixed = _exchanged(given, moved, clip.bodies)
        if mixed is not None:
            return Finding(what=f"{key} of {mixed}: its bodies are in another order", mend=REORDER)
        if alike < ALIKE or not 1.0 / SAME_SPEED < factor < SAME_SPEED:
            return Finding(
                what=f"{key} is not the velocity of {of}: {factor:.2f} times it (correlation {alike:.2f})", options=""
            )
    return None


def _exchanged(given: Tensor, moved: Tensor, names: Sequence[str]) -> str | None:
    """Name the first of some joints or bodies that have each other's velocities; None where there are none.

    Both are (frames, names) or (frames, names, 3). Two that move alike are not told apart: it makes no difference.
    """
    given, moved = given.reshape(len(given), len(names), -1), moved.reshape(len(moved), len(names), -1)
    own, other = given.square().sum(dim=(0, 2)), moved.square().sum(dim=(0, 2))
    both = torch.einsum("fax,fbx->ab", given, moved)
    left = (own[:, None] - 2.0 * both + other) / own[:, None].clamp(min=AT_REST**2 * given[:, 0].numel())
    foreign = left.diagonal() > NOT_ITS_OWN
    least, whose = torch.where(foreign, left, torch.inf).min(dim=1)
    follows = torch.where(foreign & (least < ANOTHERS), whose, -1).tolist()
    for first in range(len(names)):
        # Only who comes back has changed places: a centre of mass, too, may move as the next body's origin does.
        place = follows[first]
        for _ in names:
            place = follows[place] if place not in (-1, first) else place
        if place == first:
            return f"'{names[first]}' is the velocity of '{names[follows[first]]}'"
    return None


def _fit(given: Tensor, moved: Tensor) -> tuple[float, float]:
    """Return the factor that makes ``moved`` most like ``given``, and their correlation."""
    both, own, other = (given * moved).sum(), moved.square().sum(), given.square().sum()
    return float(both / own.clamp(min=1e-12)), float(both / torch.sqrt(own * other).clamp(min=1e-12))


def _rms(value: Tensor) -> float:
    return float(value.square().mean().sqrt())
