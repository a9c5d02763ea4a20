"""MetricSink that writes one JSON object a line, flushed, so that a reader sees every finished iteration."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from domain.errors import OutputError


class JsonlSink:
    """Appends to ``path``; a value that is not finite becomes null.

    A resumed run repeats the iterations after its checkpoint, so the rows from the first repeated one on, and a row
    that a crash cut short, are dropped when the first new row comes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Append a row. Raises OutputError where the file cannot be written."""
        try:
            if self._file is None:
                self._file = self._open(iteration)
            row = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
            self._file.write(json.dumps({"iteration": iteration, **row}) + "\n")
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            # What could not be written has been said.
            with suppress(OSError):
                self._file.close()

    def _open(self, first: int) -> TextIO:
        if self._path.exists():
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if _iteration(line) < first]
            if len(kept) != len(lines):
                aside = self._path.with_name(f".{self._path.name}.tmp")
                aside.write_text("".join(kept), encoding="utf-8")
                aside.replace(self._path)
        return self._path.open("a", encoding="utf-8")


def _iteration(line: str) -> float:
    """Return a row's iteration; infinite for a row that is cut short."""
    try:
        return float(json.loads(line)["iteration"]) if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf
