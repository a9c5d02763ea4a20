"""MuJoCo, loaded without OpenGL, and where its own log goes.

Import ``mujoco`` and ``batch`` from here. A plain ``import mujoco`` follows MUJOCO_GL and fails where
that names a missing GL library; physics needs none of it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    from mujoco import batch as batch

LOG_NAME = "mujoco.log"


def route_log(folder: Path | None) -> None:
    """Send the engine's warnings to ``mujoco.log`` in ``folder``, or nowhere, instead of console and working folder.

    The setting is the process's: the latest backend decides. The engine writes a row's first warning
    of a kind only; the counters that feed ``StateView.diverged`` see all of them.
    """
    config = mujoco.MjLogConfig.get()
    config.logto_console = False
    config.logto_file = folder is not None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        config.logfile = str(folder / LOG_NAME)
    mujoco.MjLogConfig.set(config)
