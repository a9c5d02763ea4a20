"""``unilab trace``: whether a run kept the timing contract, and a picture of its ticks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domain.errors import DataError
from entrypoints.cli.options import DEFAULT_RUNS, RunsDir

if TYPE_CHECKING:
    from application.trace import TraceReport, TraceSource

VIOLATED = 1

trace = typer.Typer(name="trace")
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Run folder, the end of its path, or its name.")]


@trace.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    """Timing of an off-policy run: check it, look at it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@trace.command("check")
def check(run: RunArgument, runs_dir: RunsDir = DEFAULT_RUNS) -> None:
    """Check every tick of a run against the timing contract.

    Ends with code 0 where it holds, 1 where it is broken, 2 where there is no run, trace or tick.
    """
    from application.trace import check_trace

    source = _source(run, runs_dir)
    report = check_trace(source)
    _print(report)
    _tell_cut(source)
    if report.breaks:
        raise typer.Exit(VIOLATED)


@trace.command("export")
def export(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Chrome trace JSON, to be opened in ui.perfetto.dev.")],
    runs_dir: RunsDir = DEFAULT_RUNS,
) -> None:
    """Write a run's ticks as a picture for Perfetto or chrome://tracing.

    unilab trace export demo ticks.json
    """
    from application.trace import chrome_json
    from entrypoints.evaluation import check_place

    source = _source(run, runs_dir)
    check_place(file, "FILE")
    _write(file, chrome_json(source))
    typer.echo(f"trace {file}: open it in https://ui.perfetto.dev")
    _tell_cut(source)


def _source(reference: str, runs_dir: Path) -> "TraceSource":
    from entrypoints.composition import make_container

    container = make_container(runs_dir)
    source: TraceSource = container.trace_source(container.run_store().find(reference))
    return source


def _write(file: Path, pieces: Iterator[str]) -> None:
    """Write aside and rename: a trace that turns out to be damaged leaves no file."""
    aside = file.with_name(f".{file.name}.tmp")
    # A missing trace is found by the first piece, before a folder is made.
    first = next(pieces)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with aside.open("w", encoding="utf-8") as target:
                target.write(first)
                target.writelines(pieces)
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror or error}") from error


def _print(report: "TraceReport") -> None:
    from entrypoints.cli.display import table

    figures = report.summary
    rows = [("ticks", f"{figures.ticks}, with updates {figures.windows}, starts of the run {report.segments}")]
    for name, seconds in (
        ("iteration", figures.iteration),
        ("inference", figures.inference),
        ("collector step", figures.collect),
        ("updates", figures.updates),
    ):
        rows.append((name, "" if seconds is None else f"{seconds * 1e3:.3f} ms"))
    ratio = "" if figures.overlap is None else f"{figures.overlap:.2f}"
    rows.append(("iteration / (inference + max(collector step, updates))", ratio))
    typer.echo(table(rows))
    if not report.breaks:
        typer.echo("the timing contract holds")
        return
    typer.echo(f"the timing contract is broken: {sum(found.count for found in report.breaks.values())} times")
    lines = [
        (f"  {rule}", str(found.count), f"first in tick {found.first.tick}: {found.first.what}")
        for rule, found in report.breaks.items()
    ]
    typer.echo(table(lines))


def _tell_cut(source: "TraceSource") -> None:
    if source.cut:
        typer.echo("the last line of the trace is cut short and left out: the run ended in a crash, or still runs")
