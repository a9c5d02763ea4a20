"""Whether a clip's bodies are where its joints put them: forward kinematics against the body arrays.

A clip made for another body order, rotation order or unit loads like any other and cannot be learnt from; this is
where it shows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from application.motion.findings import REORDER, Finding
from application.motion.ports import Kinematics, Poses
from application.motion.schema import SAME_POSITION, SAME_ROTATION
from application.motion.trajectory import trajectory_of
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex
from domain.rotations import quat_angle

IDENTITY_ERROR = 1e-6
ALL_IDENTITY = "; every body_quat_w is the identity, so the quaternion order is undecidable"
UNITS = {100.0: "centimetres", 1000.0: "millimetres", 39.3701: "inches", 0.01: "hectometres"}
SAME_UNIT = 0.05
"""How far a scale may be from a unit's, relative."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """How far bodies of a clip are from where its root and joints put them."""

    bodies: tuple[str, ...]
    frames: Tensor
    """(compared,) int64: which frames of the clip."""
    distance: Tensor
    """(compared, bodies) m."""
    angle: Tensor
    """(compared, bodies) rad."""
    poses: Poses
    """Of all the robot's bodies at those frames."""

    @property
    def off(self) -> Tensor:
        """(compared, bodies) bool: clearly somewhere else, or turned."""
        return (self.distance > SAME_POSITION) | (self.angle > SAME_ROTATION)

    @property
    def fits(self) -> bool:
        """Whether every body is where it should be in every frame."""
        return not bool(self.off.any())


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Finding):
    """Why bodies are elsewhere, and what to do."""

    decided: bool
    """Whether one change makes every body fit; else the first body that is off is named."""


def compare(clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, most_frames: int | None = None) -> Agreement:
    """Return where the clip's bodies are, against forward kinematics of its root and joints.

    Args:
        clip: Has the robot's joints in its order and its root body.
        robot: Names.
        kinematics: Of that robot.
        most_frames: Compare only so many, evenly spread with both ends; None compares all.
    """
    last = clip.frames - 1
    count = clip.frames if most_frames is None else min(clip.frames, most_frames)
    frames = torch.linspace(0, last, count, dtype=torch.float64).round().long()
    poses = kinematics.poses(trajectory_of(clip, robot).qpos[frames])
    ids = [robot.bodies.index(name) for name in clip.bodies]
    offset = clip.body_pos[frames].double() - poses.body_pos[:, ids]
    return Agreement(
        bodies=clip.bodies,
        frames=frames,
        distance=torch.linalg.vector_norm(offset, dim=-1),
        angle=quat_angle(clip.body_quat[frames].double(), poses.body_quat[:, ids]),
        poses=poses,
    )


def diagnose(found: Agreement, clip: MotionClip, robot: EntityIndex, kinematics: Kinematics) -> Diagnosis | None:
    """Say why a clip does not fit; None where it does."""
    if found.fits:
        return None
    for change, what, options in _changes(found, clip, robot):
        if compare(change(clip), robot, kinematics, len(found.frames)).fits:
            return Diagnosis(what=what, options=options, decided=True)
    return Diagnosis(what=_first_off(found, clip, robot), mend=REORDER, decided=False)


def undecidable_order(clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, most_frames: int) -> str | None:
    """Say why the order of the quaternions' parts cannot be told from the clip; None where it can."""
    if identity_only(clip):
        return "quaternion order is undecidable: every body_quat_w is the identity; it is taken as w first"
    if compare(clip, robot, kinematics, most_frames).fits and _other_order_fits(clip, robot, kinematics, most_frames):
        return "quaternion order is undecidable: forward kinematics fits in both orders; it is taken as w first"
    return None


def identity_only(clip: MotionClip) -> bool:
    """Whether every rotation is the identity, in one order of its parts or the other."""
    size = clip.body_quat.abs()
    return any(bool(((size[..., part] - 1.0).abs() < IDENTITY_ERROR).all()) for part in (0, 3))


def _other_order_fits(clip: MotionClip, robot: EntityIndex, kinematics: Kinematics, most_frames: int) -> bool:
    return compare(_swap(clip), robot, kinematics, most_frames).fits


def _changes(
    found: Agreement, clip: MotionClip, robot: EntityIndex
) -> Iterator[tuple[Callable[[MotionClip], MotionClip], str, str]]:
    """Yield what a clip may need, with a text and options of the converter."""
    yield (
        _swap,
        "body_quat_w is x y z w, expected w x y z: that way forward kinematics fits every body",
        "--quat-order xyzw",
    )
    scale = _scale(found, clip, robot)
    for factor, unit in UNITS.items():
        if abs(scale / factor - 1.0) < SAME_UNIT:
            yield (
                lambda clip, factor=factor: replace(clip, body_pos=clip.body_pos / factor),  # type: ignore[misc]
                f"positions are in {unit}, {factor:g} times what forward kinematics gives, expected metres",
                f"--scale {1.0 / factor:g}",
            )
    yield (
        lambda clip: replace(clip, joint_pos=torch.deg2rad(clip.joint_pos)),
        "joint_pos is in degrees, expected radians: that way forward kinematics fits every body",
        "--degrees",
    )


def _swap(clip: MotionClip) -> MotionClip:
    return replace(clip, body_quat=clip.body_quat[..., [3, 0, 1, 2]])


def _scale(found: Agreement, clip: MotionClip, robot: EntityIndex) -> float:
    """Return how much larger the clip's distances from the root are than the robot's."""
    root, ids = clip.bodies.index(robot.root_body), [robot.bodies.index(name) for name in clip.bodies]
    pos = clip.body_pos[found.frames].double()
    given = torch.linalg.vector_norm(pos - pos[:, root : root + 1], dim=-1).sum()
    computed = found.poses.body_pos[:, ids]
    own = torch.linalg.vector_norm(computed - computed[:, root : root + 1], dim=-1).sum()
    return float(given / own) if float(own) > 0.0 else 1.0


def _first_off(found: Agreement, clip: MotionClip, robot: EntityIndex) -> str:
    """Name the first body that is somewhere else, and whose place it has."""
    body = int(found.off.any(dim=0).int().argmax())
    row = int(found.off[:, body].int().argmax())
    frame, distance, angle = int(found.frames[row]), float(found.distance[row, body]), float(found.angle[row, body])
    how = f"{distance:.3f} m from" if distance > SAME_POSITION else f"turned by {angle:.2f} rad against"
    text = f"body '{clip.bodies[body]}' is {how} where forward kinematics of joint_pos puts it at frame {frame}"
    nearest = torch.linalg.vector_norm(found.poses.body_pos[row] - clip.body_pos[frame, body].double(), dim=-1)
    other = robot.bodies[int(nearest.argmin())]
    if distance > SAME_POSITION and float(nearest.min()) < SAME_POSITION:
        text += f", and just where '{other}' belongs: the bodies are in another order than this robot's"
    if identity_only(clip):
        text += ALL_IDENTITY
    return text
