"""The choice of a GL backend; what is not installed is stood in for by the probe's answer."""

import os
import subprocess
import sys

import pytest

from adapters.rendering import gl
from domain.errors import ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has several GL backends to choose from")


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)


def works_only(monkeypatch: pytest.MonkeyPatch, *working: str) -> list[str]:
    """Let only these backends work; return the list that records which were tried."""
    tried: list[str] = []

    def probe(backend: str) -> str | None:
        tried.append(backend)
        return None if backend in working else "library not found"

    monkeypatch.setattr(gl, "_probe", probe)
    return tried


@pytest.mark.parametrize(("working", "chosen", "tried"), [(["egl", "osmesa"], "egl", 1), (["osmesa"], "osmesa", 2)])
@pytest.mark.usefixtures("no_display")
def test_without_a_display_egl_is_tried_before_osmesa(
    monkeypatch: pytest.MonkeyPatch, working: list[str], chosen: str, tried: int
) -> None:
    seen = works_only(monkeypatch, *working)

    assert gl.choose_backend() == chosen
    assert len(seen) == tried


@pytest.mark.usefixtures("no_display")
def test_mujoco_gl_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    works_only(monkeypatch, "egl", "osmesa")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")

    assert gl.choose_backend() == "osmesa"


@pytest.mark.usefixtures("no_display")
def test_a_wrong_mujoco_gl_is_named_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "vulkan")

    with pytest.raises(ConfigurationError, match="MUJOCO_GL='vulkan': known are egl, glfw, osmesa"):
        gl.choose_backend()


@pytest.mark.usefixtures("no_display")
def test_a_backend_that_fails_is_not_replaced_and_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    works_only(monkeypatch, "egl")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")

    with pytest.raises(ConfigurationError, match="osmesa: library not found.*libegl1 .*libosmesa6") as caught:
        gl.choose_backend()

    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_display")
def test_nothing_that_works_is_one_error_with_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    works_only(monkeypatch)

    with pytest.raises(ConfigurationError, match="egl: library not found; osmesa: library not found"):
        gl.choose_backend()


@pytest.mark.usefixtures("no_display")
def test_a_real_backend_without_a_display_fails_in_the_probe_only() -> None:
    reason = gl._probe.__wrapped__("glfw")

    assert reason is not None
    assert "\n" not in reason


def test_choosing_imports_neither_mujoco_nor_opengl() -> None:
    script = "import sys, adapters.rendering.video; print(sorted({'mujoco', 'OpenGL', 'glfw'} & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": "src", "MUJOCO_GL": "nonsense"},
    )

    assert done.stdout.strip() == "[]"
