"""How many physics threads there are and on which CPUs they run.

The engine's pool threads inherit the mask of the thread that builds them and have no name, so they
are found as the task ids that appear while the batch is built. The thread that calls ``step`` works
as well: it keeps the whole set, and the first CPU of the set is left to it.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from domain.errors import ConfigurationError

_TASKS = Path("/proc/self/task")


def available_cpus() -> tuple[int, ...]:
    """Return the CPUs that this thread may use: the affinity mask, not the machine."""
    if sys.platform == "linux":
        return tuple(sorted(os.sched_getaffinity(0)))
    else:
        return tuple(range(os.cpu_count() or 1))


def validated(cpu_ids: Sequence[int]) -> tuple[int, ...]:
    """Return ``cpu_ids`` if every one of them can be used.

    Raises:
        ConfigurationError: The list is empty, or has negative, repeated or unavailable ids.
    """
    ids = tuple(cpu_ids)
    available = available_cpus()
    if not ids:
        raise ConfigurationError(f"cpu_ids is empty: name at least one of {list(available)}, or leave it out")
    negative = sorted({cpu for cpu in ids if cpu < 0})
    if negative:
        raise ConfigurationError(f"cpu_ids has negative ids {negative}: CPUs are numbered from 0")
    repeated = sorted({cpu for cpu in ids if ids.count(cpu) > 1})
    if repeated:
        raise ConfigurationError(f"cpu_ids names {repeated} more than once: each thread gets a CPU of its own")
    missing = sorted(set(ids) - set(available))
    if missing:
        raise ConfigurationError(f"cpu_ids {missing} are not available to this process (available: {list(available)})")
    return ids


def thread_count(num_envs: int, cpu_ids: Sequence[int] | None) -> int:
    """Return how many threads step the batch, the calling one included; at least 1, at most ``num_envs``."""
    cpus = available_cpus() if cpu_ids is None else cpu_ids
    return max(1, min(len(cpus), num_envs))


def task_ids() -> frozenset[int]:
    """Return the ids of this process's threads; empty where the system does not list them."""
    return frozenset(int(task.name) for task in _TASKS.iterdir()) if _TASKS.is_dir() else frozenset()


def restrict_process(cpu_ids: Sequence[int]) -> None:
    """Confine every thread of this process, and with them all later ones, to ``cpu_ids``.

    Only Linux can do this; elsewhere a warning says that nothing happened.
    """
    if sys.platform == "linux":
        for task in task_ids():
            # A thread may end between listing and pinning it.
            with suppress(ProcessLookupError):
                os.sched_setaffinity(task, cpu_ids)
        # A kernel that hides the task list still moves the caller.
        os.sched_setaffinity(0, cpu_ids)
    else:
        warnings.warn(f"cpu_ids {list(cpu_ids)} set the thread count only: {sys.platform} cannot pin", stacklevel=2)


def pin_pool(threads: Iterable[int], cpu_ids: Sequence[int]) -> None:
    """Pin each pool thread to one CPU; the calling thread has the first CPU for itself."""
    if sys.platform == "linux":
        for place, thread in enumerate(sorted(threads), start=1):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, {cpu_ids[place % len(cpu_ids)]})


def read_affinity(threads: Iterable[int]) -> dict[int, set[int]]:
    """Return the CPUs that each living thread may use; empty where the system has no such notion."""
    masks: dict[int, set[int]] = {}
    if sys.platform == "linux":
        for thread in threads:
            with suppress(ProcessLookupError):
                masks[thread] = os.sched_getaffinity(thread)
    return masks
