"""Recorded motions as an H.264 video and a still picture."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import imageio.v3 as imageio
import imageio_ffmpeg
from torch import Tensor

from adapters.rendering.gl import choose_backend
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from adapters.rendering.offscreen import OffscreenRenderer

MAX_FPS = 30.0


class MujocoRecorder:
    """Draws a trajectory of a scene with MuJoCo's renderer."""

    def record(
        self,
        scene: SceneModel,
        qpos: Tensor,
        fps: float,
        *,
        video: Path | None,
        still: Path | None,
        size: tuple[int, int] = (640, 480),
    ) -> None:
        """Write a video of the whole trajectory and a still of its middle; each file appears only when complete.

        Args:
            scene: What moved; ``scene.camera`` looks at it.
            qpos: (T, nq), one state a frame.
            fps: Frames per second of ``qpos``; above 30, frames are left out evenly, so the motion keeps its speed.
            video: MP4 to write, or None.
            still: PNG to write, or None.
            size: Width and height, pixels, even.

        Raises:
            ConfigurationError: No OpenGL, no such camera, or a size or rate that cannot be.
            DataError: The states do not fit the scene, or a path cannot be written. Known before anything is drawn.
        """
        _check(scene, qpos, fps, size)
        for path in (video, still):
            if path is not None:
                _check_writable(path)
        if video is None and still is None:
            return
        backend = choose_backend()
        # It imports mujoco, which itself fails on a wrong MUJOCO_GL: only after the choice has been checked.
        from adapters.rendering.offscreen import OffscreenRenderer

        with OffscreenRenderer(scene, backend, size) as renderer:
            if still is not None:
                _write_still(renderer, qpos[len(qpos) // 2], still)
            if video is not None:
                stride = max(1, math.ceil(fps / MAX_FPS - 1e-6))
                _write_video(renderer, qpos[::stride], fps / stride, size, video)


def _check(scene: SceneModel, qpos: Tensor, fps: float, size: tuple[int, int]) -> None:
    if qpos.ndim != 2 or qpos.shape[0] == 0 or qpos.shape[1] != scene.index.nq:
        raise DataError(f"the recorded qpos is {tuple(qpos.shape)}: the scene needs (frames, {scene.index.nq})")
    if not bool(qpos.isfinite().all()):
        raise DataError("the recorded qpos has values that are not finite")
    if not (math.isfinite(fps) and fps > 0):
        raise ConfigurationError(f"fps is {fps}: it must be above zero")
    if min(size) < 2 or size[0] % 2 or size[1] % 2:
        raise ConfigurationError(f"the picture size is {size[0]}x{size[1]}: H.264 needs even numbers above zero")


def _check_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error}") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DataError(f"cannot write {path}: " + ("it is a folder" if path.is_dir() else "its folder is read-only"))


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; rename it to ``path`` at the end, or remove it after an error."""
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _write_still(renderer: "OffscreenRenderer", state: Tensor, path: Path) -> None:
    with _aside(path) as partial:
        imageio.imwrite(partial, renderer.draw(state.double().numpy()), extension=".png")


def _write_video(renderer: "OffscreenRenderer", states: Tensor, fps: float, size: tuple[int, int], path: Path) -> None:
    with _aside(path) as partial:
        sink = imageio_ffmpeg.write_frames(
            str(partial),
            size,
            fps=fps,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=2,
            output_params=["-movflags", "+faststart", "-f", "mp4"],
        )
        try:
            sink.send(None)
            for state in states.double().numpy():
                sink.send(renderer.draw(state).tobytes())
        finally:
            sink.close()
