"""Real pictures and videos, small and few; skipped with the reason where no GL backend works."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
import torch

from adapters.rendering import gl
from adapters.rendering.video import MujocoRecorder
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError
from domain.physics import ModelIndex

SCENE = SceneModel(
    mjcf="""
<mujoco>
  <worldbody>
    <camera name="front" pos="0 -4 0" xyaxes="1 0 0 0 0 1"/>
    <light pos="0 -3 3" dir="0 1 -1"/>
    <body name="ball">
      <joint name="rail" type="slide" axis="1 0 0"/>
      <geom name="collision" size="0.1" mass="1" rgba="0 0 0 0"/>
      <geom name="paint" type="sphere" size="0.4" contype="0" conaffinity="0" mass="0" rgba="1 0.1 0.1 1"/>
    </body>
  </worldbody>
</mujoco>
""",
    camera="front",
    index=ModelIndex(
        nq=1,
        nv=1,
        nu=0,
        nsensordata=0,
        timestep=0.002,
        bodies=("world", "ball"),
        joints=("rail",),
        geoms=("collision",),
        sites=(),
        actuators=(),
        sensors={},
        default_qpos=(0.0,),
        entities={},
    ),
)
PATH = torch.linspace(-1.0, 1.0, 21)[:, None]
SIZE = (96, 64)


@pytest.fixture
def gl_works() -> None:
    try:
        gl.choose_backend()
    except ConfigurationError as error:
        pytest.skip(str(error))


def red_centre(image: np.ndarray) -> float:
    """Return the mean column of the red pixels, 0 at the left and 1 at the right."""
    pixels = image.astype(np.int32)
    red = pixels[..., 0] > pixels[..., 1] + 60
    return float(np.nonzero(red)[1].mean() / image.shape[1])


@pytest.mark.usefixtures("gl_works")
def test_the_still_shows_the_middle_of_the_motion_with_visual_elements(tmp_path: Path) -> None:
    MujocoRecorder().record(SCENE, PATH, 10.0, video=None, still=tmp_path / "new" / "still.png", size=SIZE)

    image = imageio.imread(tmp_path / "new" / "still.png")
    assert image.shape == (64, 96, 3)
    assert red_centre(image) == pytest.approx(0.5, abs=0.03)


@pytest.mark.usefixtures("gl_works")
def test_the_video_is_h264_of_the_whole_motion_and_nothing_else_is_left(tmp_path: Path) -> None:
    MujocoRecorder().record(SCENE, PATH, 10.0, video=tmp_path / "run.mp4", still=None, size=SIZE)

    assert [path.name for path in tmp_path.iterdir()] == ["run.mp4"]
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "run.mp4"))
    facts = next(reader)
    frames = [np.frombuffer(frame, np.uint8).reshape(64, 96, 3) for frame in reader]
    assert (facts["codec"], facts["fps"], facts["size"]) == ("h264", 10.0, SIZE)
    assert facts["pix_fmt"].startswith("yuv420p")
    assert len(frames) == 21
    assert red_centre(frames[0]) < 0.35
    assert red_centre(frames[-1]) > 0.65
    data = (tmp_path / "run.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # it plays before it is loaded


@pytest.mark.usefixtures("gl_works")
def test_frames_above_thirty_a_second_are_left_out_and_the_duration_stays(tmp_path: Path) -> None:
    MujocoRecorder().record(SCENE, PATH[:20], 50.0, video=tmp_path / "run.mp4", still=None, size=SIZE)

    reader = imageio_ffmpeg.read_frames(str(tmp_path / "run.mp4"))
    assert next(reader)["fps"] == 25.0
    assert sum(1 for _ in reader) == 10


@pytest.mark.usefixtures("gl_works")
def test_recording_works_in_a_process_that_has_already_stepped_physics_without_mujoco_gl(tmp_path: Path) -> None:
    script = (
        "import os, sys, torch\n"
        "from pathlib import Path\n"
        "from adapters.mujoco.backend import MujocoBackend\n"
        "from adapters.rendering.video import MujocoRecorder\n"
        "from tests.adapters.mujoco.small_scenes import WALKER\n"
        "backend = MujocoBackend(WALKER, 2)\n"
        "states = []\n"
        "for _ in range(3):\n"
        "    backend.step(2); states.append(backend.state.qpos[0].clone())\n"
        "MujocoRecorder().record(WALKER, torch.stack(states), 50.0, video=None, still=Path(sys.argv[1]), size=(64, 48))"
        "\nbackend.step(2)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "still.png")],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"PYTHONPATH": os.pathsep.join(["src", "."])},
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert imageio.imread(tmp_path / "still.png").std() > 1.0


@pytest.mark.usefixtures("gl_works")
def test_an_unknown_camera_is_named(tmp_path: Path) -> None:
    scene = dataclasses.replace(SCENE, camera="top")

    with pytest.raises(ConfigurationError, match="no camera 'top'"):
        MujocoRecorder().record(scene, PATH, 10.0, video=None, still=tmp_path / "still.png", size=SIZE)


def test_a_wrong_mujoco_gl_is_an_error_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux reads MUJOCO_GL here")
    monkeypatch.setenv("MUJOCO_GL", "wrong")

    with pytest.raises(ConfigurationError, match="MUJOCO_GL='wrong'"):
        MujocoRecorder().record(SCENE, PATH, 10.0, video=tmp_path / "run.mp4", still=None)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("qpos", "message"),
    [
        (torch.zeros(5, 2), r"\(5, 2\): the scene needs \(frames, 1\)"),
        (torch.zeros(0, 1), "needs"),
        (torch.tensor([[0.0], [float("nan")]]), "not finite"),
    ],
)
def test_states_that_do_not_fit_are_refused(tmp_path: Path, qpos: torch.Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MujocoRecorder().record(SCENE, qpos, 10.0, video=tmp_path / "run.mp4", still=None)


@pytest.mark.parametrize(("fps", "size"), [(0.0, SIZE), (float("nan"), SIZE), (10.0, (95, 64)), (10.0, (96, 0))])
def test_rates_and_sizes_that_cannot_be_are_refused(tmp_path: Path, fps: float, size: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="fps is|picture size"):
        MujocoRecorder().record(SCENE, PATH, fps, video=tmp_path / "run.mp4", still=None, size=size)


def test_a_path_that_cannot_be_written_is_known_before_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "wrong")  # drawing would fail first if it were tried
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match="cannot write"):
        MujocoRecorder().record(SCENE, PATH, 10.0, video=tmp_path / "file" / "run.mp4", still=None)
    with pytest.raises(DataError, match="it is a folder"):
        MujocoRecorder().record(SCENE, PATH, 10.0, video=None, still=tmp_path)
