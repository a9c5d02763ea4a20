"""MuJoCo Warp, loaded without OpenGL and without its start-up notices.

Import ``mujoco``, ``mujoco_warp`` and ``warp`` from here. A plain ``import mujoco`` follows MUJOCO_GL and fails where
that names a missing GL library; physics needs none of it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without_gl() -> Iterator[None]:
    """Hide MUJOCO_GL from MuJoCo's import and put it back for whoever renders later."""
    asked = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        yield
    finally:
        del os.environ["MUJOCO_GL"]
        if asked is not None:
            os.environ["MUJOCO_GL"] = asked


with _without_gl():
    import mujoco as mujoco
    import mujoco_warp as mujoco_warp
    import warp as warp

# Warp would print a line for each module that it compiles or finds.
warp.config.log_level = warp.LOG_ERROR
