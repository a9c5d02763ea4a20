"""The reference motions of a run as one table on the device, looked up by frame."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import ConfigurationError, DataError, unknown_name
from domain.motion.clip import MotionClip


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MotionFrames:
    """Views of rows of a table: a reference state each, in the clip's world frame."""

    joint_pos: Tensor
    """(rows, joints), rad or m."""
    joint_vel: Tensor
    """(rows, joints), rad/s or m/s."""
    body_pos: Tensor
    """(rows, bodies, 3), m."""
    body_quat: Tensor
    """(rows, bodies, 4), w first."""
    body_lin_vel: Tensor
    """(rows, bodies, 3), m/s."""
    body_ang_vel: Tensor
    """(rows, bodies, 3), rad/s."""


class MotionTable:
    """All frames of all clips, one after the other; nothing in it changes.

    ``data`` is float32, (frames, width): joint_pos | joint_vel | body_pos | body_quat | body_lin_vel | body_ang_vel,
    of the given joints and bodies in the given order, quaternions of unit norm. A frame is a row of it.
    ``clip_start`` and ``clip_end``, (clips,) int64, are the first and last frame of each clip, and ``bounds`` the same
    as numbers; ``end_of``, (frames,) int64, is the last frame of the clip that a frame belongs to.
    ``fingerprint``, (2,) int64, tells tables apart: of all numbers as the clips have them, and of ``bounds``. It is
    exact and the same on every device.

    Args:
        clips: At least one; all at the same rate. Their joints and bodies may be more and otherwise ordered.
        joints: Names, in the robot's order.
        bodies: Names of the tracked bodies.
        device: Where the table lives.

    Raises:
        ConfigurationError: There is no clip.
        DataError: A clip lacks a joint or body, or two rates differ; names the sources.
    """

    def __init__(
        self, clips: Sequence[MotionClip], joints: Sequence[str], bodies: Sequence[str], device: torch.device
    ) -> None:
        if not clips:
            raise ConfigurationError("no reference motion is given: name at least one")
        for clip in clips[1:]:
            if clip.fps != clips[0].fps:
                raise DataError(
                    f"{clips[0].source} has {clips[0].fps:g} fps and {clip.source} {clip.fps:g}: "
                    "resample one, a table has one rate"
                )
        self.joints, self.bodies = tuple(joints), tuple(bodies)
        self.fps = clips[0].fps
        rows = [self._rows(clip) for clip in clips]
        past = tuple(itertools.accumulate(clip.frames for clip in clips))
        self.bounds = tuple((end - clip.frames, end - 1) for clip, end in zip(clips, past, strict=True))
        self.clip_start, self.clip_end = torch.tensor(self.bounds, device=device).unbind(1)
        self.end_of = torch.cat([torch.full((end - start + 1,), end) for start, end in self.bounds]).to(device)
        # Clip by clip, because it takes some times a clip's memory; and before a norm could round otherwise elsewhere.
        starts = (start * rows[0].shape[1] for start, _ in self.bounds)
        digests = [_digest(part.view(torch.int32), at) for part, at in zip(rows, starts, strict=True)]
        self.fingerprint = torch.stack((torch.stack(digests).sum(), _digest(torch.tensor(self.bounds)))).to(device)
        for part in rows:
            quat = self.views(part).body_quat
            quat.copy_(torch.nn.functional.normalize(quat.double(), dim=-1))
        self.data = torch.cat(rows).to(device)

    @property
    def frames(self) -> int:
        """Number of frames of all clips."""
        return self.data.shape[0]

    @property
    def width(self) -> int:
        """Numbers a frame."""
        return self.data.shape[1]

    def lookup(self, frame: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the rows (n, width) of frames (n,) int64, in ``out`` where given."""
        return torch.index_select(self.data, 0, frame, out=out)

    def views(self, rows: Tensor) -> MotionFrames:
        """Name the columns of rows (n, width); the parts share their memory."""
        joints, bodies = len(self.joints), len(self.bodies)
        sizes = (joints, joints, 3 * bodies, 4 * bodies, 3 * bodies, 3 * bodies)
        joint_pos, joint_vel, *parts = rows.split(sizes, dim=1)
        pos, quat, lin_vel, ang_vel = (part.unflatten(1, (bodies, -1)) for part in parts)
        return MotionFrames(
            joint_pos=joint_pos,
            joint_vel=joint_vel,
            body_pos=pos,
            body_quat=quat,
            body_lin_vel=lin_vel,
            body_ang_vel=ang_vel,
        )

    def _rows(self, clip: MotionClip) -> Tensor:
        """Return a clip's frames with the table's columns, (frames, width); quaternions are still the clip's."""
        joints = _positions(clip, "joint", self.joints, clip.joints)
        bodies = _positions(clip, "body", self.bodies, clip.bodies)
        parts = (
            clip.joint_pos[:, joints],
            clip.joint_vel[:, joints],
            clip.body_pos[:, bodies],
            clip.body_quat[:, bodies],
            clip.body_lin_vel[:, bodies],
            clip.body_ang_vel[:, bodies],
        )
        return torch.cat([part.flatten(1).float() for part in parts], dim=1)


def _digest(numbers: Tensor, first: int = 0) -> Tensor:
    """Return the sum of whole numbers, each times an odd number of its place from ``first`` on; 0-d int64, wraps."""
    place = torch.arange(first + 1, first + 1 + numbers.numel()) * 0x1E3779B97F4A7C15
    # Mixed, because changes that are regular, as of signs, would cancel between factors that are.
    factor = (place ^ (place >> 32)) * 0x3F58476D1CE4E5B9 | 1
    return (numbers.flatten().to(torch.int64) * factor).sum()


def _positions(clip: MotionClip, kind: str, names: Sequence[str], known: Sequence[str]) -> list[int]:
    """Return where ``names`` stand in a clip. Raises DataError for one that it lacks."""
    for name in names:
        if name not in known:
            raise DataError(f"{clip.source} lacks what the robot has: {unknown_name(kind, name, known)}")
    return [known.index(name) for name in names]
