"""One JSON object an iteration, whole at any moment."""

import json
import math
from pathlib import Path

import pytest

from adapters.metrics.jsonl import JsonlSink
from domain.errors import OutputError


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_row_is_readable_before_the_sink_is_closed(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "m.jsonl")

    sink.write(1, {"episode/return": 2.0, "loss/value": math.nan})

    assert rows(tmp_path / "m.jsonl") == [{"iteration": 1, "episode/return": 2.0, "loss/value": None}]
    sink.close()


def test_nothing_is_made_before_the_first_row(tmp_path: Path) -> None:
    JsonlSink(tmp_path / "m.jsonl").close()

    assert not (tmp_path / "m.jsonl").exists()


def test_a_resumed_run_replaces_the_rows_that_it_repeats(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    first = JsonlSink(path)
    for iteration in (1, 2, 3):
        first.write(iteration, {"x": float(iteration)})
    first.close()
    with path.open("a") as file:
        file.write('{"iteration": 4, "x')

    second = JsonlSink(path)
    second.write(3, {"x": 30.0})
    second.write(4, {"x": 40.0})
    second.close()

    assert [(row["iteration"], row["x"]) for row in rows(path)] == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "absent" / "m.jsonl")

    with pytest.raises(OutputError, match="m.jsonl cannot be written"):
        sink.write(1, {})
