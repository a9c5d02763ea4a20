"""What a run records of its surroundings, and the port that finds it out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

from application.config import Choices


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that Torch can use."""

    name: str
    """As Torch writes it, e.g. ``cuda:0``."""
    description: str
    memory_bytes: int | None
    """None where it is not known."""


@dataclass(frozen=True, kw_only=True)
class Processors:
    """CPUs of the machine, and those that this process may use."""

    total: int
    usable: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The checkout that the working folder belongs to."""

    id: str
    dirty: bool
    """Whether tracked files differ from it."""


class SystemProbe(Protocol):
    """Looks at the machine and the installation; changes nothing."""

    def versions(self, packages: Sequence[str]) -> dict[str, str | None]:
        """Return the installed version of each distribution, None where it is absent."""
        ...

    def platform(self) -> dict[str, str]:
        """Return operating system, machine type and Python version."""
        ...

    def devices(self) -> Sequence[Device]:
        """Return Torch's devices, the CPU first."""
        ...

    def free_memory(self, device: str) -> int | None:
        """Return the bytes that are free on a device; None where that is not known."""
        ...

    def shared_memory(self) -> int | None:
        """Return the bytes that are free for memory shared by processes; None where nothing limits it."""
        ...

    def processors(self) -> Processors:
        """Return how many CPUs there are and how many are usable."""
        ...

    def commit(self) -> Commit | None:
        """Return the commit of the working folder; None without git or outside a checkout."""
        ...


RECORDED = ("unilab", "torch", "mujoco", "rsl-rl-lib", "tensordict", "pydantic", "numpy")
"""Distributions whose versions a run records."""


def environment_record(probe: SystemProbe, choices: Choices) -> dict[str, object]:
    """Return what ``environment.json`` holds: plain data."""
    commit = probe.commit()
    devices = {device.name: device.description for device in probe.devices()}
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": probe.platform(),
        "versions": probe.versions(RECORDED),
        "device": {"name": choices.device, "description": devices.get(choices.device, "")},
        "simulator": choices.sim,
        "processors": asdict(probe.processors()),
        "git": None if commit is None else asdict(commit),
        "determinism": determinism(choices.device),
    }


def determinism(device: str) -> str:
    """Return what repeating a run on ``device`` promises."""
    if device == "cpu":
        return "same seed, same machine: same bits, and a resumed run continues bit for bit"
    return "same seed: statistically equal; sums on this device may be added in another order"
