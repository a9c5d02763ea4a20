"""Motions that need no file: made in memory for the Unitree G1, the same on every machine.

Each starts and ends at rest in the standing pose. Feet on the floor do not move, and the centre of mass stays over
them slowly enough for a robot that only balances.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor

from application.motion.ports import Kinematics
from application.motion.stance import Stance, StanceSolver
from application.motion.trajectory import check_length, clip_of, robot_of
from domain.errors import ConfigurationError, DataError, unknown_name
from domain.motion.clip import MotionClip
from domain.physics import ModelIndex
from domain.rotations import quat_from_euler_xyz

PREFIX = "builtin:"
RATE = 50.0
"""Frames a second unless told otherwise."""
FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
LEGS = tuple(
    f"{side}_{joint}_joint"
    for side in ("left", "right")
    for joint in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
)
SOLE = 0.035
"""m: the lowest point of a level foot below its body's origin."""
Knots = Sequence[tuple[float, float]]
"""Times in s and values that a course passes at rest."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How a motion differs from standing; courses that stand for nothing stay at 0."""

    seconds: float
    lower: Knots = ()
    """m: how far the pelvis sinks."""
    lean: Knots = ()
    """rad: how far the pelvis leans forward."""
    aside: Knots = ()
    """m: how far the centre of mass moves to the left."""
    lifts: tuple[Knots, Knots] = ((), ())
    """m: how high each foot is, left and right."""
    joints: Mapping[str, Knots] = field(default_factory=dict)
    """rad: change of joints above the legs."""
    swing: Callable[[Tensor], Tensor] | None = None
    """rad: change of the right elbow at times in s."""


def _repeated(knots: Knots, times: int, period: float) -> Knots:
    return [(at + turn * period, value) for turn in range(times) for at, value in knots]


def _squat() -> _Plan:
    down = [(0.3, 0.0), (1.6, 1.0), (1.9, 1.0), (3.2, 0.0)]
    both = _repeated(down, 2, 3.2)

    def course(most: float) -> Knots:
        return [(at, most * share) for at, share in both]

    arms = {f"{side}_shoulder_pitch_joint": course(-0.9) for side in ("left", "right")}
    elbows = {f"{side}_elbow_joint": course(0.3) for side in ("left", "right")}
    return _Plan(seconds=6.8, lower=course(0.16), lean=course(0.25), joints={**arms, **elbows})


def _sway() -> _Plan:
    side = [(0.3, 0.0), (1.3, 1.0), (1.5, 1.0), (3.3, -1.0), (3.5, -1.0), (5.3, 1.0), (5.5, 1.0), (6.5, 0.0)]
    return _Plan(seconds=6.8, aside=[(at, 0.06 * share) for at, share in side])


def _step() -> _Plan:
    far, high = 0.108, 0.06
    over = [(0.3, 0.0), (1.4, -1.0), (2.8, -1.0), (4.7, 1.0), (6.1, 1.0), (7.7, 0.0)]
    return _Plan(
        seconds=8.0,
        aside=[(at, far * share) for at, share in over],
        # The trunk leans over the foot that carries it, or that ankle would be at its limit.
        joints={"waist_roll_joint": [(at, -0.25 * share) for at, share in over]},
        lower=[(0.3, 0.0), (1.4, 0.02), (6.1, 0.02), (7.7, 0.0)],
        lifts=(
            [(1.5, 0.0), (2.1, high), (2.7, 0.0)],
            [(4.8, 0.0), (5.4, high), (6.0, 0.0)],
        ),
    )


def _wave() -> _Plan:
    raised = [(0.3, 0.0), (1.7, 1.0), (5.3, 1.0), (6.7, 0.0)]
    most = {"shoulder_pitch": -0.3, "shoulder_roll": -1.1, "shoulder_yaw": -1.3, "elbow": -0.5}

    def swing(at: Tensor) -> Tensor:
        # Four whole swings while the arm is up.
        return (
            0.35
            * course(at, [(1.7, 0.0), (2.3, 1.0), (4.7, 1.0), (5.3, 0.0)])
            * torch.sin(2.0 * math.pi * (at - 1.7) / 0.9)
        )

    joints = {f"right_{name}_joint": [(at, value * share) for at, share in raised] for name, value in most.items()}
    return _Plan(seconds=7.0, joints=joints, swing=swing)


PLANS: Mapping[str, Callable[[], _Plan]] = MappingProxyType(
    {"squat": _squat, "sway": _sway, "step": _step, "wave": _wave}
)


def builtin_name(source: str) -> str | None:
    """Return which built-in motion ``source`` names; None where it is a file.

    Raises:
        DataError: There is no such motion; names the nearest.
    """
    if not source.startswith(PREFIX):
        return None
    name = source.removeprefix(PREFIX)
    if name not in PLANS:
        raise DataError(unknown_name("built-in motion", name, PLANS))
    return name


def make_clip(name: str, index: ModelIndex, kinematics: Kinematics, fps: float = RATE) -> MotionClip:
    """Return a built-in motion for the robot of ``index``.

    Raises:
        ConfigurationError: The robot is no G1.
        DataError: The rate is out of all measure.
    """
    robot, plan = robot_of(index), PLANS[name]()
    missing = [*(set(LEGS) | set(plan.joints)) - set(robot.joints), *set(FEET) - set(robot.bodies)]
    if missing:
        raise ConfigurationError(
            f"{PREFIX}{name} is made for the Unitree G1, and this robot has no {sorted(missing)[0]}: name a motion file"
        )
    check_length(plan.seconds, fps)
    frames = round(plan.seconds * fps) + 1
    at = torch.arange(frames, dtype=torch.float64) / fps
    wanted = _stance(plan, at, index, kinematics)
    path = StanceSolver(robot, kinematics, FEET, LEGS).solve(wanted, fps)
    return clip_of(path, robot, kinematics, f"{PREFIX}{name}")


def course(at: Tensor, knots: Knots) -> Tensor:
    """Return a value at the times ``at``: constant before and after the knots, between them of least jerk.

    Source:
        Flash and Hogan 1985: 10 s^3 - 15 s^4 + 6 s^5 between points of rest.
    """
    if not knots:
        return torch.zeros_like(at)
    value = torch.full_like(at, knots[0][1])
    for (begin, before), (end, after) in pairwise(knots):
        if after != before:
            s = ((at - begin) / (end - begin)).clamp(0.0, 1.0)
            value = value + (after - before) * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    return value


def _stance(plan: _Plan, at: Tensor, index: ModelIndex, kinematics: Kinematics) -> Stance:
    robot = robot_of(index)
    stand = torch.tensor(index.default_qpos, dtype=torch.float64)
    poses = kinematics.poses(stand[None])
    feet = poses.body_pos[0, [robot.bodies.index(name) for name in FEET]]
    # The keyframe's feet are a little in the floor and not quite level.
    height = stand[2] + SOLE - feet[:, 2].mean()
    zero = torch.zeros_like(at)
    joints = stand[7:].repeat(len(at), 1)
    for name, knots in plan.joints.items():
        joints[:, robot.joints.index(name)] += course(at, knots)
    if plan.swing is not None:
        joints[:, robot.joints.index("right_elbow_joint")] += plan.swing(at)
    feet_pos = feet.repeat(len(at), 1, 1)
    feet_pos[..., 2] = SOLE + torch.stack([course(at, knots) for knots in plan.lifts], dim=1)
    com = poses.com[0, :2].repeat(len(at), 1)
    com[:, 1] += course(at, plan.aside)
    return Stance(
        com=com,
        root_height=height - course(at, plan.lower),
        root_quat=quat_from_euler_xyz(zero, course(at, plan.lean), zero),
        feet_pos=feet_pos,
        feet_quat=torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64).expand(len(at), 2, 4),
        joint_pos=joints,
    )
