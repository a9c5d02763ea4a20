"""RunStore over a folder: ``<root>/<task>/<algo>/<YYYY-mm-dd_HH-MM-SS>-<name>/``."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import yaml

from application.ports import Run
from domain.errors import ConfigurationError, DataError

CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
LOCK = ".lock"
_CHECKPOINT = re.compile(r"iteration_([0-9]+)\.pt")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TIME = "%Y-%m-%d_%H-%M-%S"
_TAIL_BYTES = 1 << 16


class FolderRunStore:
    """Run folders below ``root``, which need not exist yet."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self, name: str) -> None:
        """Refuse a run name that is no file name, and a root that cannot be written; creates nothing.

        Raises:
            ConfigurationError: ``name`` is longer than 100, or holds anything but letters, digits, ``.``, ``_``, ``-``.
            DataError: The root, or the nearest folder above it that exists, is no folder or read-only.
        """
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"--run-name is '{name}': use up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
            )
        nearest = self._root.absolute()
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        if not nearest.is_dir():
            raise DataError(f"runs cannot be written to {self._root}: {nearest} is not a folder")
        _check_writable(nearest, self._root)

    def create(self, task: str, algo: str, name: str) -> Run:
        """Make a new run folder; two runs of the same second get different ones.

        Raises:
            ConfigurationError: The name is no file name.
            DataError: The folder cannot be written.
        """
        self.check(name)
        parent = self._root / task / algo
        stamp = f"{datetime.now().strftime(_TIME)}-{name}"
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path = _claim(parent, stamp)
            (path / "checkpoints").mkdir()
        except OSError as error:
            raise DataError(f"a run folder cannot be made in {parent}: {error.strerror or error}") from error
        return Run(path=path)

    @contextmanager
    def claim(self, run: Run) -> Iterator[None]:
        """Keep other processes from training the run meanwhile, where the system has file locks.

        Raises:
            DataError: Another one trains it.
        """
        if os.name != "posix":
            yield
            return
        import fcntl

        try:
            file = (run.path / LOCK).open("a")
        except OSError as error:
            raise DataError(f"{run.path / LOCK} cannot be written: {error.strerror or error}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise DataError(f"run {run.path} is being trained by another process: wait for its end") from error
            yield

    def find(self, reference: str) -> Run:
        """Return the run at a path, else the newest whose path below the root ends so, or whose name is so.

        Raises:
            DataError: There is none.
        """
        path = Path(reference)
        if (path / CONFIG).is_file():
            return Run(path=path)
        wanted = path.parts
        for run in self.runs():
            parts = run.path.relative_to(self._root).parts
            if parts[-len(wanted) :] == wanted or run_name(run) == reference:
                return run
        raise DataError(f"no run '{reference}' in {self._root.absolute()}: 'unilab runs' lists those that are there")

    def runs(self) -> Iterator[Run]:
        """Yield all runs, newest first."""
        found = [Run(path=config.parent) for config in self._root.glob(f"*/*/*/{CONFIG}")]
        yield from sorted(found, key=_age, reverse=True)

    def write_config(self, run: Run, values: Mapping[str, object]) -> None:
        """Save the resolved configuration. Raises DataError where it cannot be written."""
        text = yaml.safe_dump(dict(values), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
        _write(run.path / CONFIG, text)

    def read_config(self, run: Run) -> dict[str, object]:
        """Return the saved configuration. Raises DataError where it is missing or unreadable."""
        path = run.path / CONFIG
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        # A date that is none is a plain ValueError, and nesting without end exhausts the parser's stack.
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged: {' '.join(str(error).split())}") from error
        if not isinstance(values, dict):
            raise DataError(f"{path} is damaged: it holds no mapping")
        return values

    def write_environment(self, run: Run, record: Mapping[str, object]) -> None:
        """Save what the run runs on; a resumed run keeps the record of each earlier start under ``earlier``.

        Raises:
            DataError: The record cannot be written.
        """
        path = run.path / ENVIRONMENT
        starts = _earlier_starts(path)
        whole = {**record, "earlier": starts} if starts else dict(record)
        _write(path, json.dumps(whole, indent=2) + "\n")

    def newest_checkpoint(self, run: Run) -> Path:
        """Return the checkpoint of the highest iteration. Raises DataError for none."""
        found = [path for path in run.checkpoints.glob("iteration_*.pt") if _CHECKPOINT.fullmatch(path.name)]
        if not found:
            raise DataError(f"run {run.path} has no checkpoint: it ended before its first one")
        return max(found, key=checkpoint_iteration)

    def last_metrics(self, run: Run) -> dict[str, float]:
        """Return the last whole row of the run's metrics; empty where there is none."""
        try:
            with (run.path / METRICS).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                lines = file.read().decode("utf-8", errors="replace").splitlines()
        except OSError:
            return {}
        for line in reversed(lines):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                return {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
        return {}


def run_name(run: Run) -> str:
    """Return a run folder's name without its time."""
    return run.path.name[20:].partition("~")[0]


def checkpoint_iteration(path: Path) -> int:
    """Return the iteration in a checkpoint's file name, or -1."""
    match = _CHECKPOINT.fullmatch(path.name)
    return int(match.group(1)) if match else -1


def _earlier_starts(path: Path) -> list[object]:
    """Return the records of a run's starts so far, oldest first; a damaged file counts as none."""
    try:
        last = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(last, dict):
        return []
    return [*last.pop("earlier", []), last]


def _age(run: Run) -> tuple[str, int, int]:
    """Sort key: the second in the name; within one second, when the configuration was written, then the number."""
    _, _, number = run.path.name.partition("~")
    written = (run.path / CONFIG).stat().st_mtime_ns
    return run.path.name[:19], written, int(number) if number.isdigit() else 0


def _claim(parent: Path, stamp: str) -> Path:
    """Create a folder that no other process has created."""
    number = 1
    while True:
        path = parent / (stamp if number == 1 else f"{stamp}~{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


def _check_writable(folder: Path, root: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"runs cannot be written to {root}: no right to write in {folder}")


def _write(path: Path, text: str) -> None:
    """Write aside and rename, so that a reader never sees half a file."""
    aside = path.with_name(f".{path.name}.tmp")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
