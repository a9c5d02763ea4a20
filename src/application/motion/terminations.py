"""Which ends of an episode a reference brings about by itself, whoever follows it.

Nothing is simulated. A robot is put where the reference is, as a reset does; it can then do no more than its joints
allow, cannot be inside the floor, and falls as anything does where nothing holds it. Where that alone takes it further
from the reference than a termination allows, every episode ends there.

Source:
    Public unilab 1.5.2, motion tracking task, limits of the PPO owner.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from application.motion.findings import Finding
from application.motion.ports import Kinematics, Poses
from application.motion.trajectory import trajectory_of
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex

HEIGHT = 0.25
"""m, of ``anchor_pos`` and ``ee_body_pos``."""
TILT = 0.8
"""Of ``anchor_ori``: difference of gravity's z component in the anchor's frame."""
GRAVITY = 9.81
ANCHOR = "torso_link"
ENDS = ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link")
IN_AIR = 0.02
"""m above the floor from which nothing carries the robot."""
LONGEST_FALL = 0.5
"""s that a fall is followed."""


@dataclass(frozen=True, kw_only=True)
class End:
    """A termination that the reference brings about."""

    term: str
    frame: int
    why: str


def ends_of(
    clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, poses: Poses, limit: float = HEIGHT
) -> list[End]:
    """Return the first frame of each termination that is certain.

    Args:
        clip: The reference.
        robot: Names and ranges.
        kinematics: Of that robot.
        poses: The clip's, frame by frame.
        limit: How far ``anchor_pos`` and ``ee_body_pos`` let a height be off, m.
    """
    found: dict[str, End] = {}
    for end in (*_unreachable(clip, robot, kinematics, limit), *_floor(poses, limit), *_falls(clip, poses, limit)):
        if end.term not in found or end.frame < found[end.term].frame:
            found[end.term] = end
    return sorted(found.values(), key=lambda end: end.frame)


def height_problem(clip: MotionClip, clearance: Tensor, limit: float = HEIGHT) -> Finding | None:
    """Say that the whole clip is so far above the floor, or in it, that each episode ends at once; else None.

    ``limit`` is how far ``anchor_pos`` lets the anchor be from its height, m.
    """
    lowest, highest = float(clearance.min()), float(clearance.max())
    if lowest > limit:
        frame = math.ceil(math.sqrt(2.0 * limit / GRAVITY) * clip.fps)
        return Finding(
            what=f"the robot is never less than {lowest:.3f} m above the floor: it falls, and termination 'anchor_pos' "
            f"(off by {limit:g} m) ends every episode {frame} frames after it starts",
            options=f"--root-height-offset {-lowest:.3f}",
        )
    if highest < -limit:
        return Finding(
            what=f"the robot is never less than {-highest:.3f} m inside the floor, which keeps it out: termination "
            f"'anchor_pos' (off by {limit:g} m) ends every episode where it starts",
            options=f"--root-height-offset {-lowest:.3f}",
        )
    return None


def _unreachable(clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, limit: float) -> Iterator[End]:
    """Yield where bodies are not where root and joints, within their limits, put them."""
    path = trajectory_of(clip, robot)
    low, high = torch.tensor(robot.joint_range, dtype=torch.float64).unbind(dim=1)
    allowed = torch.minimum(torch.maximum(path.joint_pos, low), high)
    reached = kinematics.poses(replace(path, joint_pos=allowed).qpos)

    def height_off(name: str) -> Tensor:
        wanted = clip.body_pos[:, clip.bodies.index(name), 2].double()
        return (wanted - reached.body_pos[:, robot.bodies.index(name), 2]).abs()

    anchor = ANCHOR if ANCHOR in clip.bodies and ANCHOR in robot.bodies else robot.root_body
    yield from _first("anchor_pos", height_off(anchor), limit, f"'{anchor}' is {{:.2f}} m from its height")
    wanted, own = clip.body_quat[:, clip.bodies.index(anchor)], reached.body_quat[:, robot.bodies.index(anchor)]
    lean = (_gravity_z(wanted.double()) - _gravity_z(own)).abs()
    yield from _first("anchor_ori", lean, TILT, f"'{anchor}' leans otherwise by {{:.2f}}")
    for name in ENDS:
        if name in clip.bodies and name in robot.bodies:
            yield from _first("ee_body_pos", height_off(name), limit, f"'{name}' is {{:.2f}} m from its height")


def _floor(poses: Poses, limit: float) -> Iterator[End]:
    """Yield where the floor keeps the robot from the reference."""
    yield from _first("anchor_pos", -poses.clearance, limit, "the robot is {:.2f} m inside the floor")


def _falls(clip: MotionClip, poses: Poses, limit: float) -> Iterator[End]:
    """Yield where the reference leaves the path of a free fall while nothing touches the floor, or falls faster."""
    height, dt = poses.com[:, 2], 1.0 / clip.fps
    (speed,) = torch.gradient(height, spacing=dt)
    in_air = poses.clearance > IN_AIR
    aloft = in_air
    for steps in range(1, min(clip.frames, 1 + int(LONGEST_FALL * clip.fps))):
        time = steps * dt
        free = height[:-steps] + speed[:-steps] * time - 0.5 * GRAVITY * time**2
        above = height[steps:] - free
        aloft = aloft[:-1] & in_air[steps:]
        # Who falls less far than the floor stays there.
        hang = torch.where(aloft, torch.minimum(above, poses.clearance[steps:]), 0.0)
        yield from _first("anchor_pos", hang, limit, "nothing carries the robot, it falls {:.2f} m", steps)
        yield from _first("anchor_pos", -above, limit, "the robot cannot fall so fast, it lags {:.2f} m", steps)


def _first(term: str, error: Tensor, limit: float, why: str, offset: int = 0) -> Iterator[End]:
    over = error > limit
    if bool(over.any()):
        row = int(over.int().argmax())
        yield End(term=term, frame=row + offset, why=why.format(float(error[row])))


def _gravity_z(quat: Tensor) -> Tensor:
    return 2.0 * quat[:, 1:3].square().sum(dim=1) - 1.0
