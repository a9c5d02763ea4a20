"""Which OpenGL backend draws off screen here, found without risking this process.

MuJoCo's own renderer takes its backend from MUJOCO_GL when ``mujoco`` is first imported, which physics
may have done long ago. So the context is made here, from the chosen backend's module.
"""

import functools
import os
import subprocess
import sys
import tempfile
from typing import Any

from domain.errors import ConfigurationError

PACKAGES = (
    "on Debian or Ubuntu install 'libegl1 libegl-mesa0 libgl1-mesa-dri' (for egl) or 'libosmesa6' (for osmesa); "
    "with an NVIDIA driver its own EGL is used"
)
_KNOWN = ("egl", "glfw", "osmesa")
_PLATFORM_DEFAULT = "default"
_PROBE = (
    "import mujoco\n"
    "renderer = mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8)\n"
    "renderer.render()\n"
    "renderer.close()\n"
)


def choose_backend() -> str:
    """Return the name of a GL backend that works: MUJOCO_GL's if set, else the first of those that fit.

    Raises:
        ConfigurationError: MUJOCO_GL names none, or one that fails, or nothing works. One line, with the cure.
    """
    if sys.platform != "linux":
        return _PLATFORM_DEFAULT
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked:
        if asked not in _KNOWN:
            raise ConfigurationError(
                f"cannot render with MUJOCO_GL='{asked}': known are {', '.join(_KNOWN)}; unset it to let UniLab choose"
            )
        candidates: tuple[str, ...] = (asked,)
    else:
        candidates = ("glfw", "egl", "osmesa") if os.environ.get("DISPLAY") else ("egl", "osmesa")
    reasons = []
    for name in candidates:
        reason = _probe(name)
        if reason is None:
            return name
        reasons.append(f"{name}: {reason}")
    origin = "MUJOCO_GL asks for it" if asked else "MUJOCO_GL is not set"
    raise ConfigurationError(f"cannot render: no OpenGL backend works ({'; '.join(reasons)}; {origin}): {PACKAGES}")


def open_context(backend: str, width: int, height: int) -> Any:
    """Return a current GL context of a backend from ``choose_backend``; free it after use."""
    # Each module loads its own GL library on import, so only the chosen one may be imported.
    if backend == "egl":
        from mujoco.egl import GLContext
    elif backend == "osmesa":
        from mujoco.osmesa import GLContext
    elif backend == "glfw":
        from mujoco.glfw import GLContext
    else:
        from mujoco.rendering.classic.gl_context import GLContext
    context = GLContext(width, height)
    context.make_current()
    return context


@functools.cache
def _probe(backend: str) -> str | None:
    """Draw one picture in a process of its own; return why that failed, or None. A broken driver may abort."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-c", _PROBE],
                cwd=folder,
                env=os.environ | {"MUJOCO_GL": backend},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no picture within 120 s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"ended with code {done.returncode}"
