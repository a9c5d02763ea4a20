"""``unilab doctor``."""

import typer

UNHEALTHY = 1


def doctor() -> None:
    """Say what works here, what each algorithm would run on, and how to get what is missing.

    Ends with code 1 where no run could start.
    """
    from application.doctor import diagnose
    from entrypoints.cli.display import table
    from entrypoints.cli.options import DEFAULT_RUNS
    from entrypoints.composition import look_around, make_container

    container = make_container(DEFAULT_RUNS)
    found = diagnose(container.system(), look_around(container), container.engines(), container.choose_display())
    rows: list[tuple[str, str, str]] = []
    for section, verdicts in found.sections.items():
        rows.append((section, "", ""))
        for verdict in verdicts:
            remedy = f" -> {verdict.remedy}" if verdict.remedy else ""
            rows.append((f"  {verdict.subject}", verdict.state, f"{verdict.detail}{remedy}"))
    typer.echo(table(rows))
    if not found.healthy:
        raise typer.Exit(UNHEALTHY)
