"""Units that a clip's values show by themselves: joints in degrees, a root in centimetres or millimetres."""

import math

import torch
from torch import Tensor

from application.motion.agreement import Agreement
from application.motion.findings import Finding
from domain.physics import EntityIndex

BEYOND = 2.0 * math.pi
"""rad outside a joint's range: more than any unwrapping of an angle explains."""
STILL = 0.2
"""rad: joints that never leave it were hardly in degrees."""
HIGH = 2.0
"""m above the floor from which another unit is more likely than another height."""
ON_FLOOR = 0.1
"""m."""
SCALES = {0.01: "centimetres", 0.001: "millimetres"}


def degrees_problem(joint_pos: Tensor, robot: EntityIndex) -> Finding | None:
    """Say that joints (frames, joints) are so far outside their ranges that they look like degrees; else None."""
    low, high = torch.tensor(robot.joint_range, dtype=joint_pos.dtype).unbind(dim=1)
    worst, frames = torch.maximum(low - joint_pos, joint_pos - high).max(dim=0)
    joint = int(worst.argmax())
    if not float(worst[joint]) > BEYOND:
        return None
    return Finding(
        what=f"joint_pos looks like degrees, expected radians: '{robot.joints[joint]}' is {float(worst[joint]):.1f} "
        f"rad outside its range at frame {int(frames[joint])}",
        options="--degrees",
    )


def degrees_note(joint_pos: Tensor) -> str | None:
    """Say that joints, rad, which were told to be in degrees, hardly move; None where they do."""
    most = float(joint_pos.abs().max())
    if most > STILL:
        return None
    return f"with --degrees no joint is further than {most:.3f} rad from 0: leave it out if FILE is in radians"


def scale_problem(found: Agreement, robot: EntityIndex) -> Finding | None:
    """Say that the robot is high above the floor and on it in another unit of length; else None."""
    clearance, root = found.poses.clearance, found.poses.body_pos[:, robot.bodies.index(robot.root_body), 2]
    lowest = float(clearance.min())
    if lowest <= HIGH:
        return None
    for scale, unit in SCALES.items():
        if abs(float((clearance - (1.0 - scale) * root).min())) < ON_FLOOR:
            return Finding(
                what=f"the robot is never less than {lowest:.3f} m above the floor, and on it if the root's position "
                f"is in {unit}",
                options=f"--scale {scale:g}",
            )
    return None
