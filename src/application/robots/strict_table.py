"""A TOML table that is read key by key and complains about whatever does not fit.

Every error names the file, the table, the key and the remedy.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Never, TypeVar

from domain.errors import DataError, unknown_name

Name = TypeVar("Name", bound=str)


class StrictTable:
    """One table of a TOML file; ``close`` refuses the keys that nobody asked for."""

    def __init__(self, values: dict[str, object], *, file: str, path: str) -> None:
        self._values = values
        self._file = file
        self._path = path
        self._asked: set[str] = set()

    def __contains__(self, key: str) -> bool:
        self._asked.add(key)
        return key in self._values

    def names(self) -> tuple[str, ...]:
        """Return the keys in file order, for a table whose keys are free names."""
        return tuple(self._values)

    def fail(self, key: str, problem: str) -> Never:
        """Raise the DataError of ``key``; ``problem`` says what is wrong and what to write instead."""
        place = f"table '{self._path}', key '{key}'" if self._path else f"key '{key}'"
        raise DataError(f"{self._file}: {place}: {problem}")

    def fail_unknown(self, key: str, kind: str, name: str, known: Iterable[str]) -> Never:
        """Raise the DataError of a ``key`` whose value names nothing known."""
        self.fail(key, unknown_name(kind, name, known))

    def close(self) -> None:
        """Raise DataError if the table has a key that was never read."""
        for key in self._values:
            if key not in self._asked:
                self.fail(key, f"{unknown_name('key', key, self._asked)}; remove it or correct its name")

    def require_unique(self, key: str, kind: str, names: Iterable[str]) -> None:
        """Raise DataError if the ``names`` found under ``key`` are not all different."""
        for name, count in Counter(names).items():
            if count > 1:
                self.fail(key, f"the {kind} name '{name}' is used {count} times: give each {kind} its own")

    def text(self, key: str) -> str:
        """Return a non-empty string."""
        value = self._require(key)
        if not isinstance(value, str) or not value:
            self.fail(key, f"{value!r} is not a name: write a non-empty string")
        return value

    def choice(self, key: str, known: tuple[Name, ...], default: Name | None = None) -> Name:
        """Return one of the ``known`` strings."""
        if default is not None and key not in self:
            return default
        value = self.text(key)
        for name in known:
            if name == value:
                return name
        self.fail_unknown(key, key, value, known)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._values[key] if key in self else default
        if not isinstance(value, bool):
            self.fail(key, f"{value!r} is not a boolean: write true or false")
        return value

    def whole(self, key: str, default: int) -> int:
        """Return a whole number."""
        value = self._values[key] if key in self else default
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"{value!r} is not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number, the default if the key is absent."""
        if default is not None and key not in self:
            return default
        return self._finite(key, self._require(key))

    def numbers(self, key: str, count: int) -> list[float]:
        """Return exactly ``count`` finite numbers."""
        value = self._require(key)
        if not isinstance(value, list) or len(value) != count:
            self.fail(key, f"{value!r} is not a list of {count} numbers")
        return [self._finite(key, item) for item in value]

    def vec3(self, key: str, default: tuple[float, float, float] | None = None) -> tuple[float, float, float]:
        """Return three numbers."""
        if default is not None and key not in self:
            return default
        x, y, z = self.numbers(key, 3)
        return x, y, z

    def vec4(
        self, key: str, default: tuple[float, float, float, float] | None = None
    ) -> tuple[float, float, float, float]:
        """Return four numbers."""
        if default is not None and key not in self:
            return default
        w, x, y, z = self.numbers(key, 4)
        return w, x, y, z

    def pair(self, key: str) -> tuple[float, float]:
        """Return two numbers."""
        low, high = self.numbers(key, 2)
        return low, high

    def limits(self, key: str) -> tuple[float, float] | None:
        """Return a (low, high) range; None, for unlimited, if the key is absent or both are 0."""
        if key not in self:
            return None
        low, high = self.pair(key)
        if low == high == 0.0:
            return None
        if low >= high:
            self.fail(key, f"[{low}, {high}] is no range: the first number must be the smaller one")
        return low, high

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._require(key)
        if not isinstance(value, list):
            self.fail(key, f"{value!r} is not a list of names")
        names = [item for item in value if isinstance(item, str)]
        if len(names) != len(value):
            self.fail(key, f"{value!r} is not a list of names")
        return tuple(names)

    def table(self, key: str) -> "StrictTable":
        """Return the sub-table ``key``."""
        return self._child(key, self._require(key), f"{self._path}.{key}" if self._path else key)

    def tables(self, key: str) -> list["StrictTable"]:
        """Return the array of tables ``key``, empty if absent; named entries are shown by name."""
        value = self._values[key] if key in self else []
        if not isinstance(value, list):
            self.fail(key, "write it as an array of tables")
        prefix = f"{self._path}.{key}" if self._path else key
        return [self._child(key, item, f"{prefix}[{_label(item, place)}]") for place, item in enumerate(value)]

    def _child(self, key: str, value: object, path: str) -> "StrictTable":
        if not isinstance(value, dict):
            self.fail(key, f"{value!r} is not a table")
        return StrictTable(value, file=self._file, path=path)

    def _require(self, key: str) -> object:
        if key not in self:
            self.fail(key, "missing: add it")
        return self._values[key]

    def _finite(self, key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(key, f"{value!r} is not a finite number")
        return float(value)


def _label(item: object, place: int) -> object:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else place
