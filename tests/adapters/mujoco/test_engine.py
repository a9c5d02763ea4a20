"""What loading the adapter does and does not bring into a process."""

import os
import subprocess
import sys

import pytest


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])} | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_capabilities_and_affinity_load_without_mujoco_or_numpy() -> None:
    script = (
        "import sys; sys.modules['numpy'] = None; sys.modules['mujoco'] = None\n"
        "import adapters.mujoco.affinity\n"
        "from adapters.mujoco.capabilities import CAPABILITIES\n"
        "print(CAPABILITIES.execution.value)"
    )

    assert run(script).strip() == "host_bridge"


@pytest.mark.parametrize("value", ["egl", "osmesa", "nonsense", ""])
def test_physics_loads_no_gl_whatever_mujoco_gl_says(value: str) -> None:
    script = (
        "import os, sys\n"
        "from adapters.mujoco.backend import MujocoBackend\n"
        "from tests.adapters.mujoco.small_scenes import SLIDER\n"
        "MujocoBackend(SLIDER, 1).step(1)\n"
        "print(sorted({'OpenGL', 'glfw'} & set(sys.modules)), repr(os.environ['MUJOCO_GL']))"
    )

    assert run(script, MUJOCO_GL=value).strip() == f"[] {value!r}"
