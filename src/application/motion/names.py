"""Names in messages: those that a file lacks, what may be meant by others, and those that are left out."""

import difflib
from collections.abc import Iterable, Sequence

MOST_NAMES = 4
"""That a message lists."""


def listed(names: Sequence[str]) -> str:
    """Return the first of some names in quotes, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(f"'{name}'" for name in names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def meant(missing: Sequence[str], others: Iterable[str]) -> str:
    """Return the question whether the first missing name that is like another one is meant by it; empty where none is.

    ``others`` are those that the file has and nobody asked for.
    """
    by_case = {name.casefold(): name for name in others}
    for name in missing:
        near = difflib.get_close_matches(name.casefold(), by_case, n=1, cutoff=0.8)
        if near:
            return f"; did you mean '{name}' by '{by_case[near[0]]}'?"
    return ""


def left_out(kind: str, kinds: str, names: Sequence[str]) -> str:
    """Return the note on names that nothing reads; ``kind`` is one of them and ``kinds`` are several."""
    many = len(names) > 1
    return f"{len(names)} {kinds if many else kind} {'are' if many else 'is'} left out: {listed(names)}"
