"""The timing trace of a run as a file of JSON lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from application.trace_lines import Record, header_line, parse_line, tick_line
from domain.errors import DataError
from domain.timing import TickTrace, TraceHeader

_FLUSH_EVERY = 64  # ticks; a tick is about a kilobyte
_BLOCK = 1 << 16


class TraceFile:
    """TraceSink that appends a segment to ``path``: the header before the first tick, then one line a tick.

    Every 64 ticks the file is flushed. A last line that a crash has cut short is removed when a new segment starts.
    """

    def __init__(self, path: Path, header: TraceHeader) -> None:
        self._path, self._header = path, header
        self._file: BinaryIO | None = None
        self._unflushed = 0

    def write(self, tick: TickTrace) -> None:
        """Append a tick. Raises OutputError where the file cannot be written."""
        try:
            if self._file is None:
                self._file = _open_whole(self._path)
                self._file.write(header_line(self._header).encode())
            self._file.write(tick_line(tick).encode())
            self._unflushed += 1
            if self._unflushed >= _FLUSH_EVERY:
                self._file.flush()
                self._unflushed = 0
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        """Flush and close the file. Raises OutputError where what is left cannot be written."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                raise _unwritable(self._path, error) from error


class TraceFileReader:
    """TraceSource over such a file; it reads one line at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cut = False

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    @property
    def cut(self) -> bool:
        """Whether the last line was cut short."""
        return self._cut

    def records(self) -> Iterator[Record]:
        """Yield the record of each whole line. Raises DataError naming file and line."""
        self._cut = False
        try:
            with self._path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if not line.endswith(b"\n"):
                        self._cut = True
                        return
                    yield parse_line(_text(line, number, self.name), number, self.name)
        except FileNotFoundError as error:
            raise DataError(
                f"{self._path} is missing: only off-policy training writes a trace, from its first tick on"
            ) from error
        except OSError as error:
            raise DataError(f"{self._path} cannot be read: {error.strerror or error}") from error


def _text(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} line {number} is damaged: it is no UTF-8 text") from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written: {error.strerror or error}")


def _open_whole(path: Path) -> BinaryIO:
    """Open a file to append to, behind its last whole line."""
    file = path.open("ab+")
    try:
        file.truncate(_end_of_last_line(file))
        file.seek(0, 2)
    except BaseException:
        file.close()
        raise
    return file


def _end_of_last_line(file: BinaryIO) -> int:
    """Return the place behind the last line end; 0 where there is none."""
    end = file.seek(0, 2)
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
