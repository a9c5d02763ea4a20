"""The one error tree of UniLab. Entry points print it; nothing else catches it."""

import difflib
from collections.abc import Iterable


class UnilabError(Exception):
    """Root of every error that a user can meet."""


class ConfigurationError(UnilabError):
    """A value, name or combination the user gave cannot work."""


class CapabilityError(ConfigurationError):
    """A task asks a backend for something that the backend does not declare."""


class DeviceError(ConfigurationError):
    """The requested device is unknown, absent or unsupported for the job."""


class DataError(UnilabError):
    """A file (checkpoint, run, robot figures, motion) is missing, damaged or of another kind."""


class OutputError(UnilabError):
    """Something that a run produces cannot be written, e.g. because the disk is full."""


class SimulationError(UnilabError):
    """The physics engine failed, or was handed something it cannot simulate."""


class WorkerError(UnilabError):
    """A process or device that a run depends on has failed, or did not answer in time."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return one line that says which name is unknown, the nearest known one, and all known ones."""
    names = sorted(known)
    by_case = {known_name.casefold(): known_name for known_name in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), by_case, n=1, cutoff=0.5)
    hint = f": did you mean '{by_case[near[0]]}'?" if near else ""
    return f"unknown {kind} '{name}'{hint} (known: {', '.join(names) or 'none'})"
