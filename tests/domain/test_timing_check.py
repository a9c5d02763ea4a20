"""A trace that keeps the contract is clean, whatever its lengths; each planted break is found by its own rule alone."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from domain.timing import Interval, TickTrace, TraceHeader
from domain.timing_check import ALL_RULES, TimingMeter, TimingSummary, check
from tests.support.trace_breaks import BREAKS, Break
from tests.support.traces import Plan, even, make_trace, random_plan

SCHEDULES = 400


def rules(header: TraceHeader, ticks: list[TickTrace]) -> set[str]:
    return {violation.rule for violation in check(header, ticks)}


def test_random_schedules_that_keep_the_contract_are_clean() -> None:
    for seed in range(SCHEDULES):
        header, ticks = make_trace(random_plan(seed))

        assert check(header, ticks) == [], seed


def test_a_resumed_segment_counts_ticks_and_versions_on_and_chunks_anew() -> None:
    for seed in range(SCHEDULES // 4):
        header, ticks = make_trace(random_plan(seed, first_tick=1000 + seed, first_version=7 * seed))

        assert check(header, ticks) == [], seed


@pytest.mark.parametrize("planted", BREAKS, ids=lambda planted: planted.name)
def test_a_planted_break_is_found_by_its_rule_alone(planted: Break) -> None:
    header, ticks = make_trace(planted.plan)
    assert check(header, ticks) == []

    broken_header, broken = planted.plant(header, ticks)

    found = check(broken_header, broken)
    assert {violation.rule for violation in found} == {planted.rule}
    assert all("\n" not in violation.what for violation in found)
    assert planted.says in found[0].what


def test_every_rule_has_a_planted_break() -> None:
    assert {planted.rule for planted in BREAKS} == set(ALL_RULES)


def test_a_violation_names_its_tick() -> None:
    header, ticks = make_trace(Plan(lengths=even(1e-5)))
    ticks[4] = replace(ticks[4], copies_out=2)

    (found,) = check(header, ticks)

    assert (found.rule, found.tick) == ("copies", 4)
    assert found.what == "2 copies in and 2 out, where 2 and 1 are due"


def test_a_time_that_is_no_number_is_never_clean() -> None:
    header, ticks = make_trace(Plan(lengths=even(1e-5)))
    index = 8
    broken = list(_with_a_nan(ticks[index]))
    assert len(broken) == 2 * 5 + 2 * 5 + 3

    for name, tick in broken:
        assert check(header, [*ticks[:index], tick, *ticks[index + 1 :]]), name


def test_a_trace_without_ticks_is_clean() -> None:
    header, _ = make_trace(Plan(lengths=even(1e-5)))

    assert check(header, []) == []


def test_a_crash_may_end_a_trace_after_any_tick() -> None:
    header, ticks = make_trace(Plan(lengths=even(1e-5)))

    assert all(rules(header, ticks[:length]) == set() for length in range(len(ticks)))


def test_a_missing_tick_is_found() -> None:
    header, ticks = make_trace(Plan(lengths=even(1e-5)))

    assert "ticks-follow" in rules(header, ticks[:5] + ticks[6:])


def test_a_repeated_tick_is_found() -> None:
    header, ticks = make_trace(Plan(lengths=even(1e-5)))

    assert {"ticks-follow", "chunk-once"} <= rules(header, [*ticks[:5], ticks[4], *ticks[5:]])


def test_the_summary_has_the_lengths_of_ticks_with_updates() -> None:
    _, ticks = make_trace(Plan(lengths=even(10e-6), log_every=100, save_every=100))

    summary = summarise(ticks)

    # Updates of 4 ms, 20 us of inference, and seven steps of 10 us on the way round.
    assert (summary.ticks, summary.windows) == (12, 9)
    assert summary.iteration == pytest.approx(4.09e-3)
    assert summary.inference == pytest.approx(20e-6)
    assert summary.collect == pytest.approx(1e-3)
    assert summary.updates == pytest.approx(4e-3)
    assert summary.overlap == pytest.approx(4.09 / 4.02)


def test_ticks_that_log_or_save_do_not_count_as_iterations() -> None:
    _, ticks = make_trace(Plan(lengths=even(10e-6), log_every=1))

    assert summarise(ticks).iteration is None


def test_the_time_between_two_starts_of_a_run_is_no_iteration() -> None:
    _, first = make_trace(Plan(lengths=even(10e-6), log_every=100, save_every=100))
    meter = TimingMeter()

    for segment in (first[5:7], first[8:9], first[10:12]):
        meter.new_segment()
        for tick in segment:
            meter.add(tick)

    summary = meter.summary()
    # One length each from the first and the last; the single tick in between has none.
    assert summary.ticks == 5
    assert summary.iteration == pytest.approx(4.09e-3)


def test_without_updates_the_summary_is_that_of_all_ticks() -> None:
    _, ticks = make_trace(Plan(lengths=even(10e-6), learning_start=10_000, log_every=100, save_every=100))

    summary = summarise(ticks)

    assert (summary.windows, summary.updates) == (0, None)
    assert summary.collect == pytest.approx(1e-3)
    assert summary.overlap is not None


def test_no_tick_has_no_figures() -> None:
    summary = summarise([])

    assert (summary.ticks, summary.iteration, summary.overlap) == (0, None, None)


def summarise(ticks: list[TickTrace]) -> TimingSummary:
    meter = TimingMeter()
    for tick in ticks:
        meter.add(tick)
    return meter.summary()


def _with_a_nan(tick: TickTrace) -> Iterator[tuple[str, TickTrace]]:
    """Yield a tick once for each of its times, with NaN in its place."""
    nan, ingest, update = math.nan, tick.ingest, tick.update
    assert ingest is not None
    assert update is not None
    for place, (phase, begin, end) in enumerate(tick.host):
        for name, span in (("begin", (phase, nan, end)), ("end", (phase, begin, nan))):
            yield f"{phase} {name}", replace(tick, host=(*tick.host[:place], span, *tick.host[place + 1 :]))
    for nth in (0, 1):
        yield f"exchange {nth}", replace(tick, exchange=_nan_at(tick.exchange, nth))
        yield f"collect {nth}", replace(tick, collect=_nan_at(tick.collect, nth))
        yield f"update {nth}", replace(tick, update=replace(update, device=_nan_at(update.device, nth)))
        yield f"copy {nth}", replace(tick, ingest=replace(ingest, copy=_nan_at(ingest.copy, nth)))
        yield f"commit {nth}", replace(tick, ingest=replace(ingest, commit=_nan_at(ingest.commit, nth)))
    yield "copied_at", replace(tick, ingest=replace(ingest, copied_at=nan))
    yield "freed_at", replace(tick, ingest=replace(ingest, freed_at=nan))
    yield "committed_at", replace(tick, ingest=replace(ingest, committed_at=nan))


def _nan_at(interval: Interval, nth: int) -> Interval:
    return (math.nan, interval[1]) if nth == 0 else (interval[0], math.nan)
