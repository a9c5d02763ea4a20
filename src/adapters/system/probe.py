"""SystemProbe over the standard library, Torch and the git executable."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil
import torch

from application.system import Commit, Device, Processors

_GIT_SECONDS = 5
_SHARED = Path("/dev/shm")
"""Where Linux keeps memory that processes share; containers often limit it to 64 MiB."""


class LocalSystem:
    """The machine and installation that this process runs on."""

    def versions(self, packages: Sequence[str]) -> dict[str, str | None]:
        """Return the installed version of each distribution, None where it is absent."""
        return {name: _version(name) for name in packages}

    def platform(self) -> dict[str, str]:
        """Return operating system, machine type and Python version."""
        return {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
        }

    def devices(self) -> Sequence[Device]:
        """Return Torch's devices, the CPU first."""
        memory = psutil.virtual_memory().total
        found = [Device(name="cpu", description=platform.machine(), memory_bytes=memory)]
        if torch.cuda.is_available():
            for index in range(torch.cuda.device_count()):
                facts = torch.cuda.get_device_properties(index)
                found.append(Device(name=f"cuda:{index}", description=facts.name, memory_bytes=facts.total_memory))
        if torch.backends.mps.is_available():
            found.append(Device(name="mps", description="Apple GPU", memory_bytes=memory))
        return found

    def free_memory(self, device: str) -> int | None:
        """Return the bytes that are free on a device; None where Torch cannot say.

        Of MPS it is what Metal recommends to use at most, less what its driver holds for this process.
        """
        kind = torch.device(device).type
        if kind == "cpu":
            return int(psutil.virtual_memory().available)
        if kind == "cuda":
            return int(torch.cuda.mem_get_info(device)[0])
        if kind == "mps":
            return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
        return None

    def shared_memory(self) -> int | None:
        """Return what is free under /dev/shm; None where there is no such folder, as on macOS."""
        return shutil.disk_usage(_SHARED).free if _SHARED.is_dir() else None

    def processors(self) -> Processors:
        """Return how many CPUs there are and how many the affinity mask leaves."""
        total = os.cpu_count() or 1
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
        return Processors(total=total, usable=usable)

    def commit(self) -> Commit | None:
        """Return the commit of the working folder; None without git or outside a checkout."""
        head = _git("rev-parse", "HEAD")
        if not head:
            return None
        changes = _git("status", "--porcelain", "--untracked-files=no")
        return Commit(id=head, dirty=bool(changes))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """Return what git prints, or None where it cannot answer; it may be absent, slow or distrust the folder."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
