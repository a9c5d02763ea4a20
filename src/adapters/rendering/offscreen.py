"""One model drawn off screen, frame by frame."""

from types import TracebackType
from typing import Any, Self

import mujoco
import numpy as np
import numpy.typing as npt

from adapters.rendering.gl import open_context
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError

Image = npt.NDArray[np.uint8]

_MAX_GEOMS = 10_000
_SHADOW_MAP = 2048
_SAMPLES = 4


class OffscreenRenderer:
    """Draws states of a scene, visual elements included, as its camera sees them. Use in a ``with``.

    Args:
        scene: Compiled again, in full, with the vendor's meshes if it names them.
        backend: From ``gl.choose_backend``.
        size: Width and height, pixels.

    Raises:
        ConfigurationError: The text does not compile, the camera does not exist, or GL fails after all.
    """

    def __init__(self, scene: SceneModel, backend: str, size: tuple[int, int]) -> None:
        _silence_engine()
        width, height = size
        self._model = _compile(scene, width, height)
        self._data = mujoco.MjData(self._model)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_CAMERA, scene.camera)
        if self._camera.fixedcamid < 0:
            raise ConfigurationError(f"the scene has no camera '{scene.camera}'")
        self._scene = mujoco.MjvScene(self._model, _MAX_GEOMS)
        # A mirror image on the floor more than doubles the time of a frame in software.
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mujoco.MjvOption()
        self._area = mujoco.MjrRect(0, 0, width, height)
        self._pixels: Image = np.empty((height, width, 3), dtype=np.uint8)
        self._gl: Any = None
        self._drawing: Any = None
        try:
            self._gl = open_context(backend, width, height)
            self._drawing = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawing)
        except (ImportError, RuntimeError, AttributeError, mujoco.FatalError) as error:
            self.close()
            raise ConfigurationError(f"cannot render with the GL backend '{backend}': {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def draw(self, qpos: npt.NDArray[np.float64]) -> Image:
        """Return the picture of one state, (height, width, 3), top row first; a fresh array."""
        model, data = self._model, self._data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        mujoco.mj_tendon(model, data)
        mujoco.mjv_updateScene(model, data, self._options, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene)
        self._gl.make_current()
        mujoco.mjr_render(self._area, self._scene, self._drawing)
        mujoco.mjr_readPixels(self._pixels, None, self._area, self._drawing)
        return np.flipud(self._pixels).copy()

    def close(self) -> None:
        """Free the drawing context before the GL context that it lives in; a second call does nothing."""
        if self._drawing is not None:
            self._gl.make_current()
            self._drawing.free()
            self._drawing = None
        if self._gl is not None:
            self._gl.free()
            self._gl = None


def _compile(scene: SceneModel, width: int, height: int) -> Any:
    try:
        spec = mujoco.MjSpec.from_string(scene.drawn or scene.mjcf)
        visual = spec.visual
        visual.global_.offwidth, visual.global_.offheight = width, height
        visual.quality.shadowsize, visual.quality.offsamples = _SHADOW_MAP, _SAMPLES
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split())
        cure = ": replace the mesh file, or draw without meshes" if scene.drawn else ""
        raise ConfigurationError(f"the scene cannot be drawn, its MJCF does not compile: {reason}{cure}") from error


def _silence_engine() -> None:
    """Keep the engine's messages off the console and out of the working folder; a log file set elsewhere stays."""
    config = mujoco.MjLogConfig.get()
    config.logto_console = False
    if config.logfile == "MUJOCO_LOG.TXT":
        config.logto_file = False
    mujoco.MjLogConfig.set(config)
