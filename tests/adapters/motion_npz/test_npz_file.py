"""NPZ files on the way in: nothing is unpickled, and whatever is no motion file is one clear error."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from adapters.motion_npz.npz_file import read_npz
from domain.errors import DataError


def test_numbers_become_float64_and_names_text(tmp_path: Path) -> None:
    path = tmp_path / "clip.npz"
    np.savez(
        path,
        fps=np.array(50, dtype=np.int32),
        joint_pos=np.ones((2, 3), dtype=np.float16),
        joint_names=np.array(["a", "b", "c"]),
        body_names=np.array([b"x", b"y"]),
    )

    found = read_npz(path)

    assert {key: (tuple(v.shape), str(v.dtype)) for key, v in found.arrays.items()} == {
        "fps": ((), "torch.float64"),
        "joint_pos": ((2, 3), "torch.float64"),
    }
    assert found.texts == {"joint_names": ("a", "b", "c"), "body_names": ("x", "y")}


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


def test_an_object_array_is_named_and_not_unpickled(tmp_path: Path) -> None:
    """FR-17."""
    path, mark = tmp_path / "clip.npz", tmp_path / "mark"
    np.savez(path, allow_pickle=True, joint_pos=np.array([Trap(mark)], dtype=object), fps=np.array([50]))

    found = read_npz(path)

    assert found.others == {"joint_pos": "Python objects"}
    assert not mark.exists()


def test_a_pickle_under_the_name_of_an_npz_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    """FR-17."""
    path, mark = tmp_path / "clip.npz", tmp_path / "mark"
    path.write_bytes(pickle.dumps(Trap(mark)))

    with pytest.raises(DataError, match="is no NPZ"):
        read_npz(path)
    assert not mark.exists()


def test_a_missing_file_a_folder_and_an_empty_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty.npz").touch()

    with pytest.raises(DataError, match="does not exist"):
        read_npz(tmp_path / "none.npz")
    with pytest.raises(DataError, match="is a folder"):
        read_npz(tmp_path)
    with pytest.raises(DataError, match="is no NPZ"):
        read_npz(tmp_path / "empty.npz")


def test_what_the_disk_refuses_to_look_up_is_one_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop.npz"
    loop.symlink_to(loop)

    with pytest.raises(DataError, match=r"cannot be read: File name too long$"):
        read_npz(tmp_path / ("x" * 5000 + ".npz"))
    with pytest.raises(DataError, match="does not exist"):
        read_npz(loop)


def test_text_that_would_move_a_terminal_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "clip.npz"
    np.savez(path, joint_names=np.array(["a", "\x1b[31m"]), body_names=np.array([b"x\ny"]), note=np.array(["ключ"]))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("two\nlines", "hello")

    found = read_npz(path)

    assert found.texts == {"note": ("ключ",)}
    assert found.others == {
        "joint_names": "text with control characters",
        "body_names": "text with control characters",
        "'two\\nlines'": "no array",
    }


def test_a_single_array_is_no_motion_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))

    with pytest.raises(DataError, match="is no NPZ"):
        read_npz(tmp_path / "a.npy")


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_a_changed_byte_is_found(tmp_path: Path, at: float) -> None:
    path = tmp_path / "clip.npz"
    np.savez(path, joint_pos=np.zeros((100, 29)))
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(DataError, match="is damaged"):
        read_npz(path)


def test_a_file_cut_short_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "clip.npz"
    np.savez(path, joint_pos=np.zeros((100, 29)))
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(DataError, match="is no NPZ|is damaged"):
        read_npz(path)


def test_a_zip_of_other_things_holds_no_arrays(tmp_path: Path) -> None:
    path = tmp_path / "clip.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "hello")

    found = read_npz(path)

    assert (dict(found.arrays), dict(found.others)) == ({}, {"readme.txt": "no array"})
