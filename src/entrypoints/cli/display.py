"""Text for people: aligned tables and a short form of a configuration."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

# Left out of the short form where they have this value; ``--dry-run`` shows everything.
_WIDTH = 110
_USUAL: Mapping[str, object] = {
    "entity": "robot",
    "preserve_order": False,
    "is_global_time": False,
    "min_steps_between_resets": 0,
    "history_length": 1,
    "time_out": False,
}


def tell(text: str, *, err: bool = False) -> None:
    """Print a line; where the reader has gone (``| head``), it and all later output go nowhere, without an error."""
    stream = sys.stderr if err else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def table(rows: Iterable[Sequence[str]], headers: Sequence[str] = ()) -> str:
    """Return rows as columns two spaces apart; numbers belong to the caller's formatting."""
    lines = [list(row) for row in rows]
    if headers:
        lines = [list(headers), ["-" * len(header) for header in headers], *lines]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def short_config(values: Mapping[str, object]) -> str:
    """Return a configuration with one line a term, without nulls and usual values."""
    lines = []
    for key, value in values.items():
        if not isinstance(value, Mapping):
            continue
        if key in ("train", "env", "scene", "runtime", values.get("algo")):
            lines += _wrapped(f"{key}: {_short(value)}")
        elif value:
            lines.append(f"{key}:")
            lines += list(_terms(value, "  "))
    return "\n".join(lines)


def _wrapped(line: str) -> list[str]:
    """Break a line after commas; what follows is indented."""
    lines = [""]
    for part in line.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > _WIDTH:
            lines.append("  ")
        lines[-1] += part + ", "
    return [text.rstrip() for text in (*lines[:-1], lines[-1].removesuffix(", "))]


def _terms(table_of_terms: Mapping[str, object], indent: str) -> Iterable[str]:
    for name, value in table_of_terms.items():
        if isinstance(value, Mapping) and isinstance(value.get("terms"), Mapping):
            noise = "" if value.get("enable_corruption") else " (no noise)"
            yield f"{indent}{name}{noise}:"
            yield from _terms(value["terms"], indent + "  ")
        elif isinstance(value, Mapping):
            params = value.get("params")
            flat = {**value, **params} if isinstance(params, Mapping) else dict(value)
            flat.pop("params", None)
            yield f"{indent}{name}: {_short(flat)}".rstrip(": ")


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        parts = []
        for name, item in value.items():
            if item is None or (name in _USUAL and item == _USUAL[name]):
                continue
            text = _short(item)
            if text:
                parts.append(f"{name} {{{text}}}" if isinstance(item, Mapping) else f"{name} {text}")
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
