"""A clip over time as one picture: the root, then the joints limb by limb."""

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from domain.errors import DataError
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex
from domain.rotations import rotation_vector

_WIDTH, _PANEL = 11.0, 2.0
"""Inches."""
_DPI = 110


class MatplotlibMotionPlotter:
    """Draws a clip."""

    def plot(self, clip: MotionClip, robot: EntityIndex, path: Path) -> None:
        """Write a PNG of root and joints; a dashed line is the end of a joint's range that the joint comes near.

        Raises:
            DataError: The file cannot be written; what was there before is untouched.
        """
        limbs = [list(group) for _, group in groupby(range(len(clip.joints)), lambda j: clip.joints[j].split("_")[0])]
        figure = Figure(figsize=(_WIDTH, _PANEL * (2 + len(limbs))), dpi=_DPI, layout="constrained")
        panels = list(figure.subplots(2 + len(limbs), 1, sharex=True))
        at = (torch.arange(clip.frames) / clip.fps).tolist()
        root = clip.bodies.index(robot.root_body)
        _curves(panels[0], at, clip.body_pos[:, root], ("x", "y", "z"), f"{robot.root_body}, m")
        turn = rotation_vector(clip.body_quat[:, root])
        _curves(panels[1], at, turn, ("x", "y", "z"), "rotation vector, rad")
        for panel, limb in zip(panels[2:], limbs, strict=True):
            names = tuple(clip.joints[joint].removesuffix("_joint") for joint in limb)
            _curves(panel, at, clip.joint_pos[:, limb], names, "rad")
            _ranges(panel, clip.joint_pos[:, limb], [robot.joint_range[joint] for joint in limb])
        panels[-1].set_xlabel("s")
        figure.suptitle(f"{clip.source}: {clip.frames} frames at {clip.fps:g} fps", fontsize=9)
        _write(figure, path)


def _curves(panel: Any, at: list[float], values: Tensor, names: tuple[str, ...], label: str) -> None:
    for name, column in zip(names, values.T, strict=True):
        panel.plot(at, column.tolist(), label=name, linewidth=1.0)
    panel.set_ylabel(label, fontsize=8)
    panel.tick_params(labelsize=7)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _ranges(panel: Any, values: Tensor, ranges: list[tuple[float, float]]) -> None:
    for place, ends in enumerate(ranges):
        low, high = float(values[:, place].min()), float(values[:, place].max())
        near = 0.1 * (ends[1] - ends[0])
        for end, close in ((ends[0], low < ends[0] + near), (ends[1], high > ends[1] - near)):
            if close:
                panel.axhline(end, linestyle="--", linewidth=0.8, color=f"C{place}")


def _write(figure: Figure, path: Path) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            figure.savefig(file, format="png")
        aside.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
