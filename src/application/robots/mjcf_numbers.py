"""Numbers as MJCF text."""

from collections.abc import Iterable


def numbers(values: Iterable[float]) -> str:
    """Return the shortest text that reads back as exactly these numbers."""
    return " ".join(repr(float(value)) for value in values)
