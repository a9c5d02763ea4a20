"""Whether processes are gone, and what they have left in shared memory."""

import time
from collections.abc import Collection
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def living_after(pids: Collection[int], seconds: float) -> list[int]:
    """Return who still lives after a while, which ends early when nobody does."""
    deadline = time.monotonic() + seconds
    while (living := [pid for pid in pids if lives(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def family(pid: int) -> list[int]:
    """Return a process and all below it."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def shared_files(pids: Collection[int]) -> list[str]:
    """Return the names in shared memory that Torch has made in these processes."""
    names = [file.name for file in SHARED.iterdir()] if SHARED.is_dir() else []
    return [name for name in names if any(f"torch_{pid}_" in name for pid in pids)]
