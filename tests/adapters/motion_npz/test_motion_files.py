"""Clips on the disk: what is written is read again, whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
import torch

from adapters.motion_npz import motion_files
from adapters.motion_npz.motion_files import LocalMotionFiles
from application.motion.schema import read_motion
from domain.errors import DataError, OutputError
from tests.support.motion_files import builtin, g1_robot

ARRAYS = ("joint_pos", "joint_vel", "body_pos", "body_quat", "body_lin_vel", "body_ang_vel")


def test_a_clip_survives_the_way_to_the_disk_and_back(tmp_path: Path) -> None:
    clip, path = builtin(), tmp_path / "deep" / "squat.npz"

    LocalMotionFiles().write(clip, path, force=False)
    found = read_motion(LocalMotionFiles().read(path), g1_robot())

    assert found.notes == ()
    assert (found.clip.fps, found.clip.joints, found.clip.bodies) == (50.0, clip.joints, clip.bodies)
    for name in ARRAYS:
        assert torch.equal(getattr(found.clip, name), getattr(clip, name)), name


def test_the_file_has_the_published_form(tmp_path: Path) -> None:
    LocalMotionFiles().write(builtin(), tmp_path / "squat.npz", force=False)

    with np.load(tmp_path / "squat.npz", allow_pickle=False) as file:
        shapes = {key: (file[key].shape, file[key].dtype.kind) for key in file.files}
        first = [str(name) for name in file["body_names"][:2]]

    assert shapes == {
        "fps": ((1,), "i"),
        "joint_pos": ((341, 29), "f"),
        "joint_vel": ((341, 29), "f"),
        "body_pos_w": ((341, 31, 3), "f"),
        "body_quat_w": ((341, 31, 4), "f"),
        "body_lin_vel_w": ((341, 31, 3), "f"),
        "body_ang_vel_w": ((341, 31, 3), "f"),
        "joint_names": ((29,), "U"),
        "body_names": ((31,), "U"),
        "quat_order": ((1,), "U"),
    }
    assert first == ["world", "pelvis"]


def test_a_file_that_exists_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "squat.npz"
    path.write_text("mine")

    with pytest.raises(DataError, match="exists: give --force"):
        LocalMotionFiles().write(builtin(), path, force=False)
    assert path.read_text() == "mine"

    LocalMotionFiles().write(builtin(), path, force=True)
    assert LocalMotionFiles().read(path).arrays["joint_pos"].shape == (341, 29)


@pytest.mark.parametrize(("name", "message"), [("motion.csv", "end in .npz"), (".", "is a folder")])
def test_another_kind_of_target_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        LocalMotionFiles().check_target(tmp_path / name, force=True)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written to .*: File name too long"):
        LocalMotionFiles().check_target(tmp_path / ("x" * 5000 + ".npz"), force=False)


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DataError, match="cannot be written"):
        LocalMotionFiles().check_target(tmp_path / "file" / "clip.npz", force=False)


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "squat.npz"
    path.write_text("mine")

    def full(file: Path, *rest: object) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(motion_files, "write_npz", full)

    with pytest.raises(OutputError, match="No space left"):
        LocalMotionFiles().write(builtin(), path, force=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["squat.npz"]
    assert path.read_text() == "mine"
