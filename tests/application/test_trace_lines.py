"""A trace as lines: what is read is what was written, and a damaged line is named."""

import json
from dataclasses import replace

import pytest

from application.trace_lines import header_line, parse_line, tick_line
from domain.errors import DataError
from tests.support.traces import Plan, even, make_trace, random_plan

HEADER, TICKS = make_trace(Plan(lengths=even(1e-5)))
NAME = "trace.jsonl"


def damaged(line: str) -> str:
    with pytest.raises(DataError) as caught:
        parse_line(line, 7, NAME)
    return str(caught.value).removeprefix("trace.jsonl line 7 is damaged: ")


def changed(text: str, path: str, value: object) -> str:
    """Return a line with one value replaced; a path's last part may be an index."""
    values = json.loads(text)
    *outer, last = path.split(".")
    target = values
    for part in outer:
        target = target[part]
    target[int(last) if isinstance(target, list) else last] = value
    return json.dumps(values)


def test_every_number_survives() -> None:
    for seed in range(100):
        header, ticks = make_trace(random_plan(seed))

        assert parse_line(header_line(header), 1, NAME) == header
        assert [parse_line(tick_line(tick), 2, NAME) for tick in ticks] == ticks


def test_a_line_is_one_line_of_about_a_kilobyte() -> None:
    line = tick_line(TICKS[-1])

    assert (line.count("\n"), line[-1]) == (1, "\n")
    assert len(line) < 1000


def test_a_time_may_be_a_whole_number() -> None:
    tick = parse_line(changed(tick_line(TICKS[0]), "collect", [100, 101]), 1, NAME)

    assert tick == replace(TICKS[0], collect=(100.0, 101.0))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tick", 1.5, "tick is 1.5, not a whole number"),
        ("slot", True, "slot is true, not a whole number"),
        ("slot", None, "slot is null, not a whole number"),
        ("exchange", [1.0], "exchange is [1.0], not [begin, end] in seconds"),
        ("collect", [1.0, "2"], 'collect is [1.0, "2"], not [begin, end] in seconds'),
        ("host.0", ["observation", 1.0], 'host is ["observation", 1.0], not [phase, begin, end]'),
        ("host.0", ["rest", 1.0, 2.0], 'host is "rest", not one of observation, act, grant, window, swap, log, save'),
        ("marked", ["rest"], 'marked is "rest", not one of observation'),
        ("marked", "log", 'marked is "log", not a list'),
        ("update", 3, "update is 3, not an object or null"),
        ("update.batch", None, "update.batch is null, not a whole number"),
        ("ingest.freed_at", "soon", 'ingest.freed_at is "soon", not a time in seconds'),
        ("ingest.batch", 0.5, "ingest.batch is 0.5, not a whole number"),
        ("other", 1, "unknown field other"),
        ("ingest.other", 1, "unknown field ingest.other"),
    ],
)
def test_a_damaged_tick_names_file_line_and_field(path: str, value: object, message: str) -> None:
    assert damaged(changed(tick_line(TICKS[-1]), path, value)).startswith(message)


def test_a_missing_field_is_named() -> None:
    values = json.loads(tick_line(TICKS[-1]))
    del values["ingest"]["rows"]

    assert damaged(json.dumps(values)) == "ingest.rows is missing"


def test_a_header_of_another_form_is_refused() -> None:
    assert damaged(changed(header_line(HEADER), "trace", 2)) == "it has form 2, this version reads form 1"


def test_a_header_is_read_as_strictly() -> None:
    assert damaged(changed(header_line(HEADER), "num_envs", "4")) == 'num_envs is "4", not a whole number'
    assert damaged(changed(header_line(HEADER), "more", 4)) == "unknown field more"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]\n", "no object"),
        ("\n", "Expecting value"),
        ('{"tick": NaN}', "NaN is no number"),
        ('{"tick": 1', "Expecting"),
        ("[" * 100_000, ""),
    ],
)
def test_what_is_no_record_is_refused(line: str, message: str) -> None:
    assert damaged(line).startswith(message)


def test_a_number_too_large_for_a_time_is_refused() -> None:
    line = tick_line(TICKS[-1]).replace('"collect":[', '"collect":[1e999,', 1)

    assert "collect is [Infinity" in damaged(line)
