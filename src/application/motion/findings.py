"""What is wrong with a clip, in words, and the command that mends it."""

from dataclasses import dataclass

REORDER = "correct joint_names or body_names, or the order of the columns: a conversion would only hide it"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, and how it is mended."""

    what: str
    options: str | None = None
    """For ``unilab motion convert``; None where it cannot mend this."""
    mend: str | None = None
    """What to do where no conversion mends it: none of anything else then helps either."""


def convert_command(source: str, options: str) -> str:
    """Return the command line that makes a new file of ``source``."""
    return " ".join(part for part in ("unilab motion convert", source, options, "--out NEW.npz") if part)


def line_of(finding: Finding, source: str) -> str:
    """Return a finding on ``source`` and what mends it, in one line."""
    if finding.options is not None:
        return f"{finding.what}: '{convert_command(source, finding.options)}'"
    return finding.what if finding.mend is None else f"{finding.what}: {finding.mend}"
