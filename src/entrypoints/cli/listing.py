"""``unilab tasks`` and ``unilab runs``."""

from typing import Annotated

import typer

from entrypoints.cli.options import DEFAULT_RUNS, RunsDir


def tasks() -> None:
    """List the tasks, with the algorithms and simulators that each can be trained with."""
    from application.planning import fitting_simulators
    from entrypoints.cli.display import table
    from entrypoints.composition import look_around, make_container

    around = look_around(make_container(DEFAULT_RUNS))
    rows = [
        (entry.name, entry.summary, " ".join(entry.algorithms), " ".join(fitting_simulators(entry, around.simulators)))
        for entry in around.tasks.values()
    ]
    typer.echo(table(rows, headers=("task", "summary", "algorithms", "simulators")))


def runs(
    latest: Annotated[
        str | None, typer.Option("--latest", metavar="TASK", help="Print only the path of this task's newest run.")
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
) -> None:
    """List the runs, newest first."""
    from application.run_list import latest_run, list_runs
    from entrypoints.cli.display import table
    from entrypoints.composition import make_container

    store = make_container(runs_dir).run_store()
    if latest is not None:
        typer.echo(latest_run(store, latest))
        return
    rows = [
        (
            str(found.path),
            found.task,
            found.algo,
            f"{found.iteration}/{found.iterations}",
            "" if found.last_return is None else f"{found.last_return:.2f}",
            found.state,
        )
        for found in list_runs(store)
    ]
    if not rows:
        typer.echo(f"no runs in {runs_dir} yet")
        return
    typer.echo(table(rows, headers=("run", "task", "algo", "iterations", "return", "state")))
