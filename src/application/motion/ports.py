"""Ports of the motion tools: files on one side, a robot's kinematics on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from domain.motion.clip import MotionClip
from domain.physics import EntityIndex


@dataclass(frozen=True, kw_only=True)
class MotionArrays:
    """What a motion file holds, as it lies there; nothing has been compared with a robot."""

    source: str
    """For messages."""
    arrays: Mapping[str, Tensor]
    """Numbers by key, float64 on the CPU."""
    texts: Mapping[str, tuple[str, ...]]
    """Lists of text by key, e.g. ``joint_names``."""
    others: Mapping[str, str]
    """Keys that hold neither, and what they hold."""


@dataclass(frozen=True, kw_only=True)
class MotionTable:
    """Rows of a text file: one frame each."""

    source: str
    header: tuple[str, ...] | None
    """Names of the columns, where the first row gives them."""
    rows: Tensor
    """(frames, columns) float64."""


class MotionFiles(Protocol):
    """Motion files on a disk; nothing in them is executed."""

    def read(self, path: Path) -> MotionArrays:
        """Return the arrays of an NPZ. Raises DataError for a missing, damaged or other file."""
        ...

    def read_table(self, path: Path) -> MotionTable:
        """Return the rows of a CSV. Raises DataError for a missing file or a cell that is no number."""
        ...

    def check_target(self, path: Path, *, force: bool) -> None:
        """Refuse a path that ``write`` would refuse. Raises DataError; changes nothing."""
        ...

    def write(self, clip: MotionClip, path: Path, *, force: bool) -> None:
        """Write a clip so that ``path`` is always whole.

        Raises:
            DataError: The file exists and ``force`` is not given, or its folder cannot be written.
            OutputError: Writing failed half-way; what was there before is untouched.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Poses:
    """Where a robot's parts are, one row a frame; float64, world frame, w-first quaternions, m."""

    body_pos: Tensor
    """(frames, bodies, 3), the order of ``EntityIndex.bodies``."""
    body_quat: Tensor
    """(frames, bodies, 4)."""
    com: Tensor
    """(frames, 3): of the whole robot."""
    clearance: Tensor
    """(frames,): lowest point of all collision shapes above the floor; negative inside it."""


@dataclass(frozen=True, kw_only=True)
class Jacobians:
    """How bodies and the centre of mass move with the degrees of freedom (nv); float64, world frame."""

    bodies: Tensor
    """(frames, bodies, 6, nv): linear velocity of the body frame's origin, then angular velocity."""
    com: Tensor
    """(frames, 3, nv)."""


class Kinematics(Protocol):
    """One robot's forward kinematics; ``qpos`` is (frames, nq)."""

    def poses(self, qpos: Tensor) -> Poses:
        """Return where everything is."""
        ...

    def jacobians(self, qpos: Tensor, bodies: Sequence[str]) -> Jacobians:
        """Return the Jacobians of ``bodies`` and of the centre of mass."""
        ...


class MotionPlotter(Protocol):
    """Draws a clip over time."""

    def plot(self, clip: MotionClip, robot: EntityIndex, path: Path) -> None:
        """Write a PNG of root and joints, with the joints' ranges. Raises DataError where it cannot be written."""
        ...
