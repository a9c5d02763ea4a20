"""What a process holds, read from ``/proc``: open files, threads, memory, children, names in shared memory."""

import gc
import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SHARED = Path("/dev/shm")
_PARENT, _SESSION = 1, 3  # of the fields of /proc/N/stat behind the name
_PATIENCE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """Of this process."""

    files: int
    threads: int
    rss_mib: float
    children: frozenset[int]

    @classmethod
    def now(cls) -> "Holdings":
        """Count, garbage collected."""
        gc.collect()
        pages = int((_PROC / "self/statm").read_text(encoding="ascii").split()[1])
        return cls(
            files=len(list((_PROC / "self/fd").iterdir())),
            threads=len(list((_PROC / "self/task").iterdir())),
            rss_mib=round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
            children=frozenset(_with_field(_PARENT, os.getpid())),
        )

    def leaks(self, before: "Holdings") -> list[str]:
        """Return what there is more of than before; memory is not looked at."""
        found = []
        if self.files > before.files:
            found.append(f"{self.files - before.files} files stay open")
        if self.threads > before.threads:
            found.append(f"{self.threads - before.threads} threads stay")
        if self.children - before.children:
            found.append(f"children {sorted(self.children - before.children)} stay")
        return found


def settled(before: Holdings) -> Holdings:
    """Return what is held once nothing more is than before, or after a while."""
    deadline = time.monotonic() + _PATIENCE_S
    while (now := Holdings.now()).leaks(before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def session_after(leader: int, seconds: float) -> list[int]:
    """Return who of a session still lives after a while, which ends early when nobody does."""
    deadline = time.monotonic() + seconds
    while (living := _with_field(_SESSION, leader)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def shared_names(pids: Collection[int]) -> list[str]:
    """Return the names in shared memory that these processes have made."""
    names = [file.name for file in _SHARED.iterdir()] if _SHARED.is_dir() else []
    return [name for name in names if any(f"_{pid}_" in name for pid in pids)]


def _with_field(field: int, value: int) -> list[int]:
    """Return the processes, but for those that only wait for init, with a value in their ``stat``."""
    found = []
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        # A child of this process that is not collected is a leak; one of somebody else is gone.
        if int(fields[field]) == value and (field == _PARENT or fields[0] not in "ZX"):
            found.append(int(folder.name))
    return found
