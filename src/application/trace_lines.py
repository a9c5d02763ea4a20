"""The text form of a timing trace: JSON lines, first the header, then one line a tick.

A header may come again: each resume of a run starts a segment. Fields have the names of ``domain.timing``; an interval
is ``[begin, end]``, a phase ``[name, begin, end]``. Numbers survive exactly.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields

from domain.errors import DataError
from domain.timing import HostPhase, IngestTrace, Interval, TickTrace, TraceHeader, UpdateTrace

Record = TraceHeader | TickTrace
_VERSION = 1
_MARK = "trace"
"""Field that only a header has: the version of the form."""
_INTERVAL, _PHASE = 2, 3  # how many parts


def header_line(header: TraceHeader) -> str:
    """Return a header as a line."""
    return _line({_MARK: _VERSION} | {field.name: getattr(header, field.name) for field in fields(header)})


def tick_line(tick: TickTrace) -> str:
    """Return a tick as a line."""
    flat = {field.name: getattr(tick, field.name) for field in fields(tick)}
    for name in ("update", "ingest"):
        part = getattr(tick, name)
        flat[name] = None if part is None else {field.name: getattr(part, field.name) for field in fields(part)}
    return _line(flat)


def parse_line(line: str, number: int, name: str) -> Record:
    """Return what a line says.

    Args:
        line: Text of the line.
        number: Of the line, from 1.
        name: Of the file.

    Raises:
        DataError: It is no header or tick of this form: a field is missing, unknown or of another kind.
    """
    try:
        values = json.loads(line, parse_constant=_refuse)
        if not isinstance(values, dict):
            raise _LineError("no object")
        reader = _Reader(values)
        return _header(reader) if _MARK in values else _tick(reader)
    except _LineError as fault:
        raise DataError(f"{name} line {number} is damaged: {fault}") from fault
    # Nesting without end exhausts the parser's stack.
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} line {number} is damaged: {' '.join(str(error).split())}") from error


class _LineError(Exception):
    """What is wrong with a line."""


class _Reader:
    """Takes fields out of an object by name and kind; in the end none may be left.

    Args:
        values: The object.
        path: Of the object within its line, with a dot behind it.
    """

    def __init__(self, values: Mapping[str, object], path: str = "") -> None:
        self._left, self._path = dict(values), path

    def take(self, name: str) -> object:
        if name not in self._left:
            raise _LineError(f"{self._path}{name} is missing")
        return self._left.pop(name)

    def whole(self, name: str) -> int:
        value = self.take(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(name, value, "a whole number")
        return value

    def optional(self, name: str) -> int | None:
        if self._left.get(name, 0) is None:
            self.take(name)
            return None
        return self.whole(name)

    def seconds(self, name: str) -> float:
        value = self.take(name)
        time = _time(value)
        if time is None:
            raise self.fault(name, value, "a time in seconds")
        return time

    def interval(self, name: str) -> Interval:
        value = self.take(name)
        if isinstance(value, list) and len(value) == _INTERVAL:
            begin, end = (_time(part) for part in value)
            if begin is not None and end is not None:
                return begin, end
        raise self.fault(name, value, "[begin, end] in seconds")

    def part(self, name: str) -> "_Reader | None":
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise self.fault(name, value, "an object or null")
        return None if value is None else _Reader(value, f"{self._path}{name}.")

    def sequence(self, name: str) -> list[object]:
        value = self.take(name)
        if not isinstance(value, list):
            raise self.fault(name, value, "a list")
        return value

    def finish(self) -> None:
        if self._left:
            raise _LineError(f"unknown field {self._path}{min(self._left)}")

    def fault(self, name: str, value: object, wanted: str) -> _LineError:
        return _LineError(f"{self._path}{name} is {json.dumps(value)[:60]}, not {wanted}")


def _header(reader: _Reader) -> TraceHeader:
    version = reader.whole(_MARK)
    if version != _VERSION:
        raise _LineError(f"it has form {version}, this version reads form {_VERSION}")
    header = TraceHeader(**{field.name: reader.whole(field.name) for field in fields(TraceHeader)})
    reader.finish()
    return header


def _tick(reader: _Reader) -> TickTrace:
    tick = TickTrace(
        tick=reader.whole("tick"),
        policy_version=reader.whole("policy_version"),
        slot=reader.whole("slot"),
        marked=tuple(_phase_name(reader, "marked", name) for name in reader.sequence("marked")),
        host=tuple(_phase(reader, value) for value in reader.sequence("host")),
        exchange=reader.interval("exchange"),
        update=_update(reader.part("update")),
        ingest=_ingest(reader.part("ingest")),
        collect=reader.interval("collect"),
        copies_in=reader.whole("copies_in"),
        copies_out=reader.whole("copies_out"),
        host_bytes=reader.whole("host_bytes"),
    )
    reader.finish()
    return tick


def _update(reader: _Reader | None) -> UpdateTrace | None:
    if reader is None:
        return None
    update = UpdateTrace(
        batch=reader.whole("batch"),
        gathered_in=reader.whole("gathered_in"),
        committed=reader.whole("committed"),
        device=reader.interval("device"),
    )
    reader.finish()
    return update


def _ingest(reader: _Reader | None) -> IngestTrace | None:
    if reader is None:
        return None
    ingest = IngestTrace(
        sequence=reader.whole("sequence"),
        tick=reader.whole("tick"),
        slot=reader.whole("slot"),
        policy_version=reader.whole("policy_version"),
        rows=reader.whole("rows"),
        copy=reader.interval("copy"),
        copied_at=reader.seconds("copied_at"),
        freed_at=reader.seconds("freed_at"),
        committed_at=reader.seconds("committed_at"),
        committed=reader.whole("committed"),
        commit=reader.interval("commit"),
        batch=reader.optional("batch"),
    )
    reader.finish()
    return ingest


def _phase(reader: _Reader, value: object) -> tuple[HostPhase, float, float]:
    if isinstance(value, list) and len(value) == _PHASE:
        name, begin, end = value[0], _time(value[1]), _time(value[2])
        if begin is not None and end is not None:
            return _phase_name(reader, "host", name), begin, end
    raise reader.fault("host", value, "[phase, begin, end]")


def _phase_name(reader: _Reader, field_name: str, value: object) -> HostPhase:
    if isinstance(value, str) and value in set(HostPhase):
        return HostPhase(value)
    raise reader.fault(field_name, value, f"one of {', '.join(HostPhase)}")


def _time(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _refuse(constant: str) -> object:
    raise _LineError(f"{constant} is no number")


def _line(values: Mapping[str, object]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"
