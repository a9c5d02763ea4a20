"""What is wrong with a clip, in words, and the command that mends it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, and how it is mended."""

    what: str
    options: str | None = None
    """For ``unilab motion convert``; None where it cannot mend this."""


def convert_command(source: str, options: str) -> str:
    """Return the command line that makes a new file of ``source``."""
    return " ".join(part for part in ("unilab motion convert", source, options, "--out NEW.npz") if part)
