"""Applies ``key=value`` texts to a configuration's plain values."""

import copy
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence

from application.removed_options import refuse_removed
from application.value_syntax import parse_value
from domain.errors import ConfigurationError

FIXED = {
    "task": "name the task as the command's argument",
    "algo": "use --algo",
    "sim": "use --sim",
    "device": "use --device",
    "schema_version": "it belongs to this version of unilab",
}
SHOWN_KEYS = 12


def apply_overrides(
    values: Mapping[str, object], overrides: Sequence[str], *, replaceable: Collection[str] = ()
) -> dict[str, object]:
    """Return a copy of ``values`` with every ``key=value`` of ``overrides`` set; types are checked later.

    Args:
        values: The whole configuration as plain data.
        overrides: As the user wrote them; values in the syntax of ``value_syntax``.
        replaceable: Paths of structures that may be set as a whole, because they may be null.

    Raises:
        ConfigurationError: No ``=``, an unreadable value, a key that is unknown, fixed, removed, given twice
            or has keys below it.
    """
    result = copy.deepcopy(dict(values))
    seen: set[str] = set()
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        refuse_removed(key)
        if not equals or not key:
            raise ConfigurationError(f"'{override}' sets nothing: write key=value, e.g. train.num_envs=64")
        if key in seen:
            raise ConfigurationError(f"{key} is set twice: give it once")
        seen.add(key)
        try:
            value = parse_value(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"{key}: {error}") from error
        _set(result, key, value, replaceable)
    return result


def leaf_paths(values: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yield the path of every value that is no mapping, in order."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from leaf_paths(value, f"{path}.")
        else:
            yield path


def _set(values: dict[str, object], key: str, value: object, replaceable: Collection[str]) -> None:
    if key in FIXED:
        raise ConfigurationError(f"{key} cannot be set by --set: {FIXED[key]}")
    owner, name = _locate(values, key)
    present = owner[name]
    if isinstance(present, dict) and key not in replaceable:
        below = list(leaf_paths(present, f"{key}."))
        more = f" and {len(below) - SHOWN_KEYS} more" if len(below) > SHOWN_KEYS else ""
        raise ConfigurationError(f"{key} is a group: set one of its keys, {', '.join(below[:SHOWN_KEYS])}{more}")
    owner[name] = value


def _locate(values: dict[str, object], key: str) -> tuple[dict[str, object], str]:
    """Return the mapping that holds ``key`` and its name there; names may hold dots themselves."""
    owner, rest, path = values, key, ""
    while True:
        fits = [name for name in owner if rest == name or rest.startswith(f"{name}.")]
        if not fits:
            raise _unknown(values, key)
        name = max(fits, key=len)
        if rest == name:
            return owner, name
        path, rest = f"{path}{name}.", rest[len(name) + 1 :]
        below = owner[name]
        if below is None:
            raise ConfigurationError(f"{key} cannot be set: {path[:-1]} is null, set it as a whole, {{...}}")
        if not isinstance(below, dict):
            raise _unknown(values, key)
        owner = below


def _unknown(values: Mapping[str, object], key: str) -> ConfigurationError:
    last = key.rpartition(".")[2]
    known = list(leaf_paths(values))
    near = [path for path in known if path.endswith(f".{key}")] or difflib.get_close_matches(
        key, known, n=1, cutoff=0.5
    )
    if not near:
        names = difflib.get_close_matches(last, [path.rpartition(".")[2] for path in known], n=1, cutoff=0.7)
        near = [path for path in known if names and path.endswith(f".{names[0]}")]
    hint = f"did you mean '{near[0]}'?" if near else f"groups are {', '.join(k for k in values if k not in FIXED)}"
    return ConfigurationError(f"unknown key '{key}': {hint} (--dry-run shows all keys)")
