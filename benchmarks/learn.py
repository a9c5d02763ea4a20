"""Whether an algorithm teaches a robot its task: trains with the task's own values, plays 20 episodes.

    python benchmarks/learn.py --task go2_flat --algo flashsac --out curves
    python benchmarks/learn.py --task g1_walk --algo flashsac --sim mjwarp --play-sim mujoco --out curves

Prints one JSON line: what the policy does next to a robot that only stands, minutes and env steps of the training. With
``--out`` the run is kept there and its curve drawn as PNG (needs matplotlib).
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from application.ports import Run
from application.training import StopFlag
from entrypoints.composition import make_container
from entrypoints.evaluation import EvalOptions, run_evaluation
from entrypoints.training import Reports, TrainOptions, plan_training, run_training


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What counts as having learnt a task."""

    terms: dict[str, float]
    """Reward terms that follow the command or the reference, and their greatest value."""
    least_share: float
    """Of the greatest value, of each term."""
    least_length: float
    """Mean length of an episode, control steps."""


GOALS = {
    "go2_flat": Goal(terms={"tracking_lin_vel": 1.0, "tracking_ang_vel": 0.2}, least_share=0.8, least_length=950.0),
    "g1_walk": Goal(terms={"tracking_lin_vel": 2.0, "tracking_ang_vel": 1.5}, least_share=0.7, least_length=900.0),
    # The clip that the task comes with has 342 frames.
    "g1_motion": Goal(terms={"motion_body_pos": 2.0, "motion_body_ori": 1.0}, least_share=0.5, least_length=273.0),
}


def train(options: argparse.Namespace, folder: Path) -> tuple[Run, dict[str, object]]:
    """Train one run in ``folder``."""
    start = time.perf_counter()
    container = make_container(folder)
    settings: dict[str, object] = {"train.seed": options.seed}
    if options.iterations:
        settings["train.iterations"] = options.iterations
    given = TrainOptions(
        task=options.task,
        algo=options.algo,
        sim=options.sim,
        device=options.device,
        settings=settings,
        overrides=options.set,
        run_name=options.name,
        quiet=True,
    )
    job = plan_training(container, given)
    reports = Reports(started=lambda run, facts: None, warn=lambda line: print(line, file=sys.stderr))
    run, summary = run_training(container, job, stop=StopFlag(), reports=reports)
    if run is None:
        raise RuntimeError("the run was not written")
    device = job.plan.device
    return run, {
        "num_envs": job.plan.config.task.train.num_envs,
        "iterations": summary.iteration,
        "env_steps": summary.env_steps,
        "minutes": round((time.perf_counter() - start) / 60, 2),
        "tail_env_steps_per_sec": round(summary.metrics["tail_env_steps_per_sec"], 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
    }


def play(run: Run, folder: Path, episodes: int, sim: str, goal: Goal) -> dict[str, object]:
    """Evaluate the newest checkpoint and a robot that only stands."""
    options = EvalOptions(run=str(run.path), episodes=episodes, sim=sim, device="cpu", baselines=True)
    report = run_evaluation(make_container(folder), options)
    found: dict[str, object] = {}
    for policy in ("policy", "zero"):
        figures = report.figures[policy]
        shares = {term: round(figures.rewards[term] / most, 3) for term, most in goal.terms.items()}
        shares |= {name: round(value, 4) for name, value in figures.metrics.items() if "error" in name}
        found[policy] = {"length": figures.mean_length, "return": round(figures.mean_return, 2), **shares}
    learnt = report.figures["policy"]
    found["passed"] = learnt.mean_length >= goal.least_length and all(
        learnt.rewards[term] >= goal.least_share * most for term, most in goal.terms.items()
    )
    return found


def draw(run: Run, file: Path, title: str, goal: Goal) -> None:
    """Draw return and tracking over env steps."""
    from matplotlib import pyplot

    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.5))
    for axis, names in (
        (axes[0], {"episode/return": 1.0}),
        (axes[1], {f"reward/{t}": m for t, m in goal.terms.items()}),
    ):
        for name, most in names.items():
            points = [(row["env_steps"] / 1e6, row[name] / most) for row in rows if row.get(name) is not None]
            axis.plot(*zip(*points, strict=True), label=name if most == 1.0 else f"{name} / {most}")
        axis.set_xlabel("million env steps")
        axis.legend()
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main(arguments: Sequence[str]) -> None:
    """Train, play, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="go2_flat", choices=sorted(GOALS))
    parser.add_argument("--algo", default="flashsac")
    parser.add_argument("--sim", default="mujoco")
    parser.add_argument("--play-sim", default="mujoco", help="where the policy is played")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=0, help="0 takes the task's own")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--name", default="learn")
    parser.add_argument("--set", nargs="+", default=[], help="values of the configuration, as for unilab train")
    parser.add_argument("--out", type=Path, help="keep run and curve here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        run, training = train(options, folder)
        goal = GOALS[options.task]
        result = play(run, folder, options.episodes, options.play_sim, goal)
        if options.out:
            title = f"{options.task}, {options.algo}"
            draw(run, options.out / f"{options.task}_{options.algo}_{options.name}.png", title, goal)
    line = {"benchmark": "learn", "task": options.task, "algo": options.algo, "sim": options.sim}
    line |= {"play_sim": options.play_sim, "seed": options.seed, "values": options.set}
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(json.dumps({**line, **training, **result, "cpus": cpus, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
