"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="UNILAB_RUNS", help="Folder that holds all runs.", show_default=True)
]
DEFAULT_RUNS = Path("runs")
Sim = Annotated[str | None, typer.Option("--sim", help="Simulator; 'unilab doctor' lists them.")]
Device = Annotated[str | None, typer.Option("--device", help="Where the network runs: auto, cpu, cuda, cuda:N or mps.")]
NumEnvs = Annotated[int | None, typer.Option("--num-envs", help="Environments that step at once.")]
Iterations = Annotated[
    int | None,
    typer.Option("--iterations", help="Rollouts and updates in all; off-policy, env steps and the updates after each."),
]
Motion = Annotated[
    list[str] | None,
    typer.Option("--motion", metavar="FILE", help="Reference motion, a file or builtin:NAME; give it once for each."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of every random stream.")]
