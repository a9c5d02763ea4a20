"""``unilab eval``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrypoints.cli.options import DEFAULT_RUNS, Device, Motion, NumEnvs, RunsDir, Seed, Sim

if TYPE_CHECKING:
    from application.evaluate import Evaluation
    from entrypoints.evaluation import EvalReport


def evaluate(
    run: Annotated[str, typer.Argument(help="Run folder, the end of its path, or its name.")],
    episodes: Annotated[int, typer.Option("--episodes", help="Whole episodes to play.")] = 20,
    sim: Sim = None,
    device: Device = None,
    num_envs: NumEnvs = None,
    seed: Seed = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Another checkpoint than the run's newest.")
    ] = None,
    motion: Motion = None,
    video: Annotated[Path | None, typer.Option("--video", help="Record env 0 as .mp4, and a .png beside it.")] = None,
    video_seconds: Annotated[
        float, typer.Option("--video-seconds", help="How much of the first episode the video shows.")
    ] = 20.0,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also play zero and random actions, from the same first states.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
) -> None:
    """Play whole episodes with a run's policy and print return, length and every reward term.

    unilab eval demo --baselines --video swingup.mp4
    """
    from entrypoints.cli.display import tell
    from entrypoints.composition import make_container
    from entrypoints.evaluation import EvalOptions, check_place, run_evaluation

    options = EvalOptions(
        run=run,
        episodes=episodes,
        sim=sim,
        device=device,
        num_envs=num_envs,
        seed=seed,
        checkpoint=checkpoint,
        motions=motion or (),
        video=video,
        video_seconds=video_seconds,
        baselines=baselines,
        announce=lambda line: tell(line, err=True),
    )
    if json_file is not None:
        check_place(json_file, "--json")
    report = run_evaluation(make_container(runs_dir), options)
    _print(report)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(_plain(report), indent=2) + "\n", encoding="utf-8")


def _print(report: "EvalReport") -> None:
    from entrypoints.cli.display import table

    names = list(report.figures)
    first = report.figures[names[0]]
    rows: list[list[str]] = []

    def row(label: str, text: Callable[["Evaluation"], str]) -> None:
        rows.append([label, *(text(report.figures[name]) for name in names)])

    row("return", lambda e: f"{e.mean_return:.2f} +- {e.std_return:.2f}")
    row("return / step dt", lambda e: f"{e.mean_unscaled_return:.1f} +- {e.std_unscaled_return:.1f}")
    row("episode length", lambda e: f"{e.mean_length:.1f}")
    for term in first.rewards:
        row(f"reward/{term}", lambda e, term=term: f"{e.rewards[term]:.4f}")  # type: ignore[misc]
    for term in first.terminations:
        row(f"termination/{term}", lambda e, term=term: f"{e.terminations[term]:.2f}")  # type: ignore[misc]
    for name in first.metrics:
        row(f"metric/{name}", lambda e, name=name: f"{e.metrics[name]:.4f}")  # type: ignore[misc]
    row("invalid episodes", lambda e: f"{e.invalid:.2f}")
    typer.echo(f"task {report.task} on {report.sim}, {first.episodes} episodes, {report.checkpoint}")
    typer.echo(table(rows, headers=["", *names]))
    if report.own_sim is not None:
        typer.echo(_differences(report.sim, first, report.own_sim))
    if report.note is not None:
        typer.echo(report.note)
    for label, path in (("video", report.video), ("still", report.still)):
        if path is not None:
            typer.echo(f"{label} {path}")


def _differences(sim: str, here: "Evaluation", there: "Evaluation") -> str:
    """Return what the policy does in another simulator than its own, less what it does there."""
    from entrypoints.cli.display import table

    terms = {f"reward/{term}": (here.rewards[term], there.rewards[term]) for term in here.rewards}
    terms |= {f"metric/{name}": (here.metrics[name], there.metrics[name]) for name in here.metrics}
    pairs = {
        "return": (here.mean_return, there.mean_return),
        "episode length": (here.mean_length, there.mean_length),
        **terms,
    }
    rows = [[name, f"{a:.4f}", f"{b:.4f}", f"{round(a - b, 4) + 0.0:+.4f}"] for name, (a, b) in pairs.items()]
    return "\n" + table(rows, headers=["sim to sim", sim, "its own", "difference"])


def _plain(report: "EvalReport") -> dict[str, object]:
    every = dict(report.figures) | ({} if report.own_sim is None else {"policy in its own simulator": report.own_sim})
    figures = {
        name: {
            "episodes": found.episodes,
            "mean_return": found.mean_return,
            "std_return": found.std_return,
            "mean_unscaled_return": found.mean_unscaled_return,
            "std_unscaled_return": found.std_unscaled_return,
            "mean_length": found.mean_length,
            "rewards": dict(found.rewards),
            "terminations": dict(found.terminations),
            "metrics": dict(found.metrics),
            "invalid": found.invalid,
        }
        for name, found in every.items()
    }
    return {
        "task": report.task,
        "sim": report.sim,
        "run": str(report.run.path),
        "checkpoint": str(report.checkpoint),
        "figures": figures,
    }
