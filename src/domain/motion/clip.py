"""A reference motion as data: joint and body trajectories at a fixed rate, with names."""

from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import DataError

WIDTHS = {
    "joint_pos": (),
    "joint_vel": (),
    "body_pos": (3,),
    "body_quat": (4,),
    "body_lin_vel": (3,),
    "body_ang_vel": (3,),
}
"""Arrays of a clip and what each holds of a joint or body."""
UNIT_NORM_ERROR = 1e-2
"""How far a quaternion's norm may be from 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionClip:
    """One reference motion; float32 tensors on the CPU, one row a frame.

    Everything is in the world frame of the clip, z up, the floor at 0.

    Raises:
        DataError: Shapes disagree, a value is not finite, a quaternion is not of unit norm, or there are fewer than two
            frames; names the source, the array and the first frame.
    """

    source: str
    """Where it came from, for messages: a file or a generator's name."""
    fps: float
    joints: tuple[str, ...]
    bodies: tuple[str, ...]
    joint_pos: Tensor
    """(frames, joints), rad or m."""
    joint_vel: Tensor
    """(frames, joints), rad/s or m/s."""
    body_pos: Tensor
    """(frames, bodies, 3), m: origin of the body frame."""
    body_quat: Tensor
    """(frames, bodies, 4), w first."""
    body_lin_vel: Tensor
    """(frames, bodies, 3), m/s: of the body frame's origin."""
    body_ang_vel: Tensor
    """(frames, bodies, 3), rad/s."""

    @property
    def frames(self) -> int:
        """Number of frames."""
        return self.joint_pos.shape[0]

    def __post_init__(self) -> None:
        if not self.fps > 0.0:
            raise DataError(f"{self.source}: fps is {self.fps}: a clip needs a rate above 0")
        if self.frames < 2:
            raise DataError(f"{self.source}: joint_pos has {self.frames} frames: a clip needs at least 2")
        for name, rest in WIDTHS.items():
            value: Tensor = getattr(self, name)
            columns = len(self.bodies if rest else self.joints)
            expected = (self.frames, columns, *rest)
            if tuple(value.shape) != expected:
                raise DataError(f"{self.source}: {name} has shape {tuple(value.shape)}, expected {expected}")
            _check_rows(torch.isfinite(value), f"{self.source}: {name} is not finite")
        norm = torch.linalg.vector_norm(self.body_quat, dim=-1)
        _check_rows((norm - 1.0).abs() <= UNIT_NORM_ERROR, f"{self.source}: body_quat is not of unit norm")


def _check_rows(fine: Tensor, message: str) -> None:
    frames = fine.flatten(1).all(dim=1)
    if not bool(frames.all()):
        raise DataError(f"{message} at frame {int((~frames).int().argmax())}")
