"""CheckpointStore over Torch's file format."""

import os
import pickle
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import torch

from application.ports import Payload
from domain.errors import DataError, OutputError

_UNREADABLE = (
    RuntimeError,  # also NotImplementedError, of zipfile for a method that it lacks
    ValueError,
    LookupError,
    EOFError,
    OSError,
    zlib.error,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)


class TorchCheckpointStore:
    """Writes a checkpoint aside, flushes it to the disk and renames it; a crash leaves the old file or none."""

    def save(self, path: Path, payload: Payload) -> None:
        """Write ``payload`` so that ``path`` is always whole; folders above it are made.

        Raises:
            OutputError: The file cannot be written; nothing is left behind.
        """
        aside = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # What a process that was killed while it saved has left; a run has one writer.
            for left in path.parent.glob(".*.pt.tmp"):
                left.unlink()
            with aside.open("wb") as file:
                torch.save(payload, file)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            _flush_folder(path.parent)
        except (OSError, RuntimeError) as error:
            raise OutputError(f"checkpoint {path} cannot be written: {_one_line(error)}") from error
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def load(self, path: Path, device: torch.device) -> Payload:
        """Return a payload with tensors on ``device``; no code of the file runs.

        Raises:
            DataError: The file is missing, cut short, damaged, or holds other objects than a payload may.
        """
        if not path.is_file():
            raise DataError(f"checkpoint {path} is missing")
        try:
            path.open("rb").close()
        except OSError as error:
            raise DataError(f"checkpoint {path} cannot be read: {_one_line(error)}") from error
        try:
            _check_sums(path)
            payload = torch.load(path, map_location=device, weights_only=True, mmap=False)
        except _UNREADABLE as error:
            raise DataError(f"checkpoint {path} is damaged or no checkpoint: {_one_line(error)}") from error
        if not isinstance(payload, dict):
            raise DataError(f"checkpoint {path} is damaged or no checkpoint: it holds a {type(payload).__name__}")
        return payload


def _check_sums(path: Path) -> None:
    """Raise BadZipFile where a part differs from its checksum, which Torch writes but does not read."""
    with zipfile.ZipFile(path) as parts:
        wrong = parts.testzip()
    if wrong is not None:
        raise zipfile.BadZipFile(f"{wrong} differs from its checksum")


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _one_line(error: Exception) -> str:
    """Return the first line of an error's text; Torch adds advice that does not apply here."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
