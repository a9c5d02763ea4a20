"""Checkpoints are whole or absent, and loading one runs no code."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from adapters.checkpoints.torch_store import TorchCheckpointStore
from domain.errors import DataError, OutputError

CPU = torch.device("cpu")
STORE = TorchCheckpointStore()


def payload(value: float = 1.0) -> dict[str, object]:
    return {"iteration": 3, "learner": {"weight": torch.full((100, 100), value), "names": ["a", "b"], "none": None}}


def test_a_payload_comes_back(tmp_path: Path) -> None:
    STORE.save(tmp_path / "checkpoints" / "a.pt", payload())

    loaded: Any = STORE.load(tmp_path / "checkpoints" / "a.pt", CPU)

    assert loaded["iteration"] == 3
    assert loaded["learner"]["names"] == ["a", "b"]
    torch.testing.assert_close(loaded["learner"]["weight"], torch.ones(100, 100))


def test_only_the_finished_file_remains(tmp_path: Path) -> None:
    STORE.save(tmp_path / "a.pt", payload())

    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_crash_between_write_and_rename_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    STORE.save(tmp_path / "a.pt", payload(1.0))

    def crash(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        STORE.save(tmp_path / "a.pt", payload(2.0))

    loaded: Any = STORE.load(tmp_path / "a.pt", CPU)
    assert float(loaded["learner"]["weight"][0, 0]) == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_killed_process_leaves_no_file_under_the_checkpoint_s_name(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os.fsync = lambda descriptor: os._exit(9)  # type: ignore[assignment]
        STORE.save(tmp_path / "a.pt", payload())
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 9
    with pytest.raises(DataError, match="is missing"):
        STORE.load(tmp_path / "a.pt", CPU)
    STORE.save(tmp_path / "b.pt", payload())
    assert [path.name for path in tmp_path.iterdir()] == ["b.pt"]


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -1])
def test_a_file_that_is_cut_short_is_damaged(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "a.pt"
    STORE.save(path, payload())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)] if isinstance(kept, float) else data[:kept])

    with pytest.raises(DataError, match="damaged or no checkpoint") as caught:
        STORE.load(path, CPU)

    assert "\n" not in str(caught.value)


def test_a_single_changed_bit_in_a_tensor_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    STORE.save(path, payload())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(DataError, match="damaged or no checkpoint: .*differs from its checksum|Bad CRC"):
        STORE.load(path, CPU)


def test_a_file_of_another_kind_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_text("hello, this is a text and no checkpoint at all\n" * 10)

    with pytest.raises(DataError, match="damaged or no checkpoint"):
        STORE.load(tmp_path / "a.pt", CPU)


class Bomb:
    """Writes a file when unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.path,))


def test_loading_runs_no_code(tmp_path: Path) -> None:
    torch.save({"x": Bomb(str(tmp_path / "ran"))}, tmp_path / "a.pt")

    with pytest.raises(DataError, match="damaged or no checkpoint"):
        STORE.load(tmp_path / "a.pt", CPU)
    assert not (tmp_path / "ran").exists()


def test_a_bare_tensor_is_no_payload(tmp_path: Path) -> None:
    torch.save(torch.zeros(3), tmp_path / "a.pt")

    with pytest.raises(DataError, match="it holds a Tensor"):
        STORE.load(tmp_path / "a.pt", CPU)


def test_a_missing_file_and_an_unwritable_folder_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match=r"checkpoint .*b.pt is missing"):
        STORE.load(tmp_path / "b.pt", CPU)
    with pytest.raises(OutputError, match=r"checkpoint .*a.pt cannot be written"):
        STORE.save(tmp_path / "file" / "a.pt", payload())
