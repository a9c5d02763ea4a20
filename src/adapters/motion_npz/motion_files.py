"""MotionFiles over the local disk."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from adapters.motion_npz.npz_file import read_npz, write_npz
from adapters.motion_npz.table_file import read_table
from application.motion.ports import MotionArrays, MotionTable
from application.motion.schema import arrays_of
from domain.errors import DataError, OutputError
from domain.motion.clip import MotionClip


class LocalMotionFiles:
    """Reads motion files and writes clips."""

    def read(self, path: Path) -> MotionArrays:
        """Return the arrays of an NPZ. Raises DataError for a missing, damaged or other file."""
        return read_npz(path)

    def read_table(self, path: Path) -> MotionTable:
        """Return the rows of a CSV. Raises DataError for a missing file or a cell that is no number."""
        return read_table(path)

    def check_target(self, path: Path, *, force: bool) -> None:
        """Refuse a path that ``write`` would refuse. Raises DataError; changes nothing."""
        nearest = path.absolute().parent
        try:
            if path.is_dir():
                raise DataError(f"{path} is a folder: name a file")
            if path.suffix != ".npz":
                raise DataError(f"{path} is to be a motion file: let its name end in .npz")
            if path.exists() and not force:
                raise DataError(f"{path} exists: give --force to replace it")
            while not nearest.exists():
                nearest = nearest.parent
            # Permissions alone do not tell: a folder may be read-only for everybody.
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as error:
            raise DataError(f"{path} cannot be written to {nearest}: {error.strerror or error}") from error

    def write(self, clip: MotionClip, path: Path, *, force: bool) -> None:
        """Write a clip aside and rename it, so that ``path`` is always whole; folders above it are made.

        Raises:
            DataError: The file exists and ``force`` is not given, or its folder cannot be written.
            OutputError: Writing failed half-way; what was there before is untouched.
        """
        self.check_target(path, force=force)
        arrays, texts = arrays_of(clip)
        aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_npz(aside, arrays, texts)
            aside.replace(path)
        except OSError as error:
            raise OutputError(f"motion file {path} cannot be written: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
