"""Whether an algorithm teaches Go2 to follow commands: trains with the task's own values, plays 20 episodes.

    python benchmarks/learn_go2.py --algo flashsac --out curves

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
from pathlib import Path

import torch

from application.ports import Run
from application.training import StopFlag
from entrypoints.composition import make_container
from entrypoints.evaluation import EvalOptions, run_evaluation
from entrypoints.training import Reports, TrainOptions, plan_training, run_training

TERMS = {"tracking_lin_vel": 1.0, "tracking_ang_vel": 0.2}
"""Reward terms that follow the command, and their greatest value."""
LEAST_LENGTH, LEAST_SHARE = 950.0, 0.8


def train(options: argparse.Namespace, folder: Path) -> tuple[Run, dict[str, object]]:
    """Train one run in ``folder``."""
    start = time.perf_counter()
    container = make_container(folder)
    settings: dict[str, object] = {"train.seed": options.seed}
    if options.iterations:
        settings["train.iterations"] = options.iterations
    given = TrainOptions(
        task="go2_flat",
        algo=options.algo,
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


def play(run: Run, folder: Path, episodes: int) -> dict[str, object]:
    """Evaluate the newest checkpoint and a robot that only stands."""
    options = EvalOptions(run=str(run.path), episodes=episodes, device="cpu", baselines=True)
    report = run_evaluation(make_container(folder), options)
    found: dict[str, object] = {}
    for policy in ("policy", "zero"):
        figures = report.figures[policy]
        shares = {term: round(figures.rewards[term] / most, 3) for term, most in TERMS.items()}
        found[policy] = {"length": figures.mean_length, "return": round(figures.mean_return, 2), **shares}
    learnt = report.figures["policy"]
    found["passed"] = learnt.mean_length >= LEAST_LENGTH and all(
        learnt.rewards[term] >= LEAST_SHARE * most for term, most in TERMS.items()
    )
    return found


def draw(run: Run, file: Path, title: str) -> None:
    """Draw return and tracking over env steps."""
    from matplotlib import pyplot

    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.5))
    for axis, names in ((axes[0], {"episode/return": 1.0}), (axes[1], {f"reward/{t}": m for t, m in TERMS.items()})):
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
    parser.add_argument("--algo", default="flashsac")
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
        result = play(run, folder, options.episodes)
        if options.out:
            draw(run, options.out / f"go2_flat_{options.algo}_{options.name}.png", f"go2_flat, {options.algo}")
    line = {"benchmark": "learn_go2", "algo": options.algo, "seed": options.seed, "values": options.set}
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(json.dumps({**line, **training, **result, "cpus": cpus, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
