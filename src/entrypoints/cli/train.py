"""``unilab train``."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrypoints.cli.options import DEFAULT_RUNS, Device, Iterations, Motion, NumEnvs, RunsDir, Seed, Sim

if TYPE_CHECKING:
    from application.planning import Plan
    from application.ports import Run
    from application.training import TrainSummary
    from entrypoints.composition import EnvFacts
    from entrypoints.training import TrainOptions


def train(
    task: Annotated[str | None, typer.Argument(help="Name of a task; 'unilab tasks' lists them.")] = None,
    algo: Annotated[str | None, typer.Option("--algo", help="Algorithm; ppo where left out.")] = None,
    sim: Sim = None,
    device: Device = None,
    num_envs: NumEnvs = None,
    iterations: Iterations = None,
    seed: Seed = None,
    motion: Motion = None,
    run_name: Annotated[str | None, typer.Option("--run-name", help="Ends the run folder's name.")] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", help="Run to continue: a folder, the end of its path, or its name.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set any value of the configuration.")
    ] = None,
    logger: Annotated[
        str, typer.Option("--logger", help="Where metrics go beside metrics.jsonl: tensorboard or none.")
    ] = "tensorboard",
    runs_dir: RunsDir = DEFAULT_RUNS,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the end.")] = False,
    no_graph: Annotated[
        bool, typer.Option("--no-graph", help="Run the GPU's steps one operation at a time; for finding faults.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the whole configuration and stop; needs no GPU.")
    ] = False,
) -> None:
    """Train a policy and keep it, with its configuration and metrics, in a run folder.

    unilab train cartpole_swingup --num-envs 256 --iterations 150

    unilab train go2_flat --set ppo.learning_rate=5e-4 --set rewards.action_rate.weight=-0.01

    unilab train --resume cartpole_swingup/ppo/2026-11-30_10-00-00-seed1 --iterations 300
    """
    from entrypoints.cli.display import tell
    from entrypoints.motions import motion_settings
    from entrypoints.training import TrainOptions

    given = {"train.num_envs": num_envs, "train.iterations": iterations, "train.seed": seed}
    settings = {path: value for path, value in given.items() if value is not None}
    options = TrainOptions(
        task=task,
        algo=algo,
        sim=sim,
        device=device,
        settings=settings | motion_settings(motion),
        overrides=overrides or (),
        run_name=run_name,
        resume=resume,
        logger=logger,
        quiet=quiet,
        graph=not no_graph,
        dry_run=dry_run,
        announce=lambda line: tell(f"note: {line}", err=True),
    )
    _train(options, runs_dir)


def _train(options: "TrainOptions", runs_dir: Path) -> None:
    from application.training import StopFlag
    from entrypoints.cli.display import tell
    from entrypoints.cli.interrupt import Received, stops_on_signal
    from entrypoints.composition import make_container
    from entrypoints.training import Reports, plan_training, run_training

    container = make_container(runs_dir)
    job = plan_training(container, options)
    if options.dry_run:
        _print_whole(job.plan)
        return

    def started(run: "Run", facts: "EnvFacts") -> None:
        if not options.quiet:
            _print_start(job.plan, run, facts)

    stop = StopFlag()
    # Ranks that stopped after different iterations would wait for each other for ever.
    with stops_on_signal(stop) if job.plan.world_size == 1 else nullcontext(Received()) as received:
        reports = Reports(started=started, warn=lambda line: tell(f"warning: {line}", err=True))
        run, summary = run_training(container, job, stop=stop, reports=reports)
    if run is not None:
        _print_end(run.path, summary)
    if summary.stopped:
        raise typer.Exit(received.exit_code)


def _print_whole(plan: "Plan") -> None:
    import yaml

    typer.echo(yaml.safe_dump(plan.config.values, sort_keys=False, default_flow_style=None, width=120), nl=False)


def _print_start(plan: "Plan", run: "Run", facts: "EnvFacts") -> None:
    from entrypoints.cli.display import short_config, tell

    config, cfg = plan.config, plan.config.task.env
    widths = ", ".join(f"{group} {width}" for group, width in facts.widths.items())
    tell(f"task {config.task.name}, {config.choices.algo} on {config.choices.device}, {config.choices.sim}")
    tell(
        f"control {1.0 / cfg.step_dt:g} Hz, physics {1.0 / cfg.sim_dt:g} Hz, "
        f"episodes of {cfg.max_episode_length} steps; observations {widths}; actions {len(facts.action_low)}"
    )
    if config.task.scene.motions:
        tell(f"motions {', '.join(config.task.scene.motions)}: one frame a control step, {1.0 / cfg.step_dt:g} fps")
    tell(short_config(config.values))
    tell(f"run {run.path}")


def _print_end(path: Path, summary: "TrainSummary") -> None:
    from entrypoints.cli.display import tell

    what = "stopped" if summary.stopped else "finished"
    reward = summary.metrics.get("episode/return")
    shown = "" if reward is None else f", return {reward:.2f}"
    tell(f"{what} at iteration {summary.iteration}, {summary.env_steps:,} env steps{shown}")
    if summary.checkpoint is not None:
        tell(f"checkpoint {summary.checkpoint}")
        tell(f"evaluate it: unilab eval {path}")
