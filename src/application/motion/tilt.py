"""Whether the root is upright: a quaternion whose parts are read in another order seldom is."""

import math

import torch
from torch import Tensor

from application.motion.findings import Finding
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex

W_FIRST = {"wxyz": (0, 1, 2, 3), "xyzw": (3, 0, 1, 2)}
"""Where w, x, y and z stand in each order."""
CLEARLY = 0.1
"""Mean difference of the up axis' z from which one order is more upright than the other."""
TILTED = 60.0
"""Degrees."""
UPSIDE_DOWN = 120.0
"""Degrees."""
UPRIGHT = 30.0
"""Degrees."""


def more_upright(quats: Tensor) -> str | None:
    """Return the order in which (frames, 4) quaternions keep the root clearly more upright; None where none does."""
    height = {order: float(_up(quats[:, places]).mean()) for order, places in W_FIRST.items()}
    if not abs(height["wxyz"] - height["xyzw"]) >= CLEARLY:
        return None
    return max(height, key=lambda order: height[order])


def order_note(quats: Tensor, order: str) -> str | None:
    """Say that a root, (frames, 4) in ``order`` as it was told, is more upright in the other one; None where not."""
    better = more_upright(quats)
    if better in (None, order):
        return None
    return (
        f"with --quat-order {order} the root is tilted by {_tilt(quats[:, W_FIRST[order]]):.0f} degrees in most "
        f"frames, and with {better} by {_tilt(quats[:, W_FIRST[str(better)]]):.0f}: check the order"
    )


def tilt_problem(clip: MotionClip, robot: EntityIndex, quat_order: str) -> Finding | None:
    """Say that the root is tilted or upside down in most frames; None where it is not.

    Args:
        clip: Has the root.
        robot: Names it.
        quat_order: How the clip's file writes rotations.
    """
    quats = clip.body_quat[:, clip.bodies.index(robot.root_body)].double()
    tilt = _tilt(quats)
    if not tilt > TILTED:
        return None
    how = "upside down" if tilt > UPSIDE_DOWN else "tilted"
    what = f"the robot is {how} in most frames ('{robot.root_body}' by {tilt:.0f} degrees)"
    # One way back is to read the file in its other order, the other is to undo that this was done once.
    other, undo = [3, 0, 1, 2], [1, 2, 3, 0]
    order = "xyzw"
    if quat_order == "xyzw":
        other, undo, order = undo, other, "wxyz"
    if _tilt(quats[:, other]) < UPRIGHT:
        return Finding(
            what=f"{what}, and upright if its rotations are read as {order}", options=f"--quat-order {order}"
        )
    if _tilt(quats[:, undo]) < UPRIGHT:
        return Finding(what=what, mend="unless it is meant, convert its source anew with the other --quat-order")
    return Finding(what=what)


def _up(quats: Tensor) -> Tensor:
    """Return the z component of the up axis of w-first quaternions (frames, 4)."""
    square = (quats / torch.linalg.vector_norm(quats, dim=1, keepdim=True).clamp(min=1e-9)).square()
    height: Tensor = square[:, 0] + square[:, 3] - square[:, 1] - square[:, 2]
    return height


def _tilt(quats: Tensor) -> float:
    return math.degrees(float(torch.acos(_up(quats).clamp(-1.0, 1.0)).median()))
