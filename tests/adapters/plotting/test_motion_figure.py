"""A picture of a clip is a PNG with ink in it, and appears whole or not at all."""

from pathlib import Path

import imageio.v3 as imageio
import pytest

from adapters.plotting.motion_figure import MatplotlibMotionPlotter
from domain.errors import DataError
from tests.support.motion_files import builtin, g1_robot


def test_a_clip_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "new" / "squat.png"

    MatplotlibMotionPlotter().plot(builtin(), g1_robot(), path)

    picture = imageio.imread(path)
    assert picture.shape[0] > picture.shape[1] > 500
    assert len({tuple(pixel) for pixel in picture[::7, ::7].reshape(-1, picture.shape[2])}) > 20
    assert [entry.name for entry in path.parent.iterdir()] == ["squat.png"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DataError, match="cannot be written"):
        MatplotlibMotionPlotter().plot(builtin(), g1_robot(), tmp_path / "file" / "squat.png")
