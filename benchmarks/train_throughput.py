"""How fast off-policy training goes on this GPU, and what hides behind what: one JSON line a case.

    python benchmarks/train_throughput.py --algo sac td3 flashsac --iterations 300 --sequential

Each case is a run of the product in a process of its own, with the task's own values. ``--sequential`` adds the same
run with collection and updates one after the other: its collector is awaited before the updates start, which only this
benchmark can ask for. The trace of every run is checked.
"""

import argparse
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from application.ports import Collector, Grant, Published
from application.trace import check_trace
from application.training import StopFlag
from domain.replay.slots import Slots
from domain.timing import HostPhase, TickTrace
from entrypoints.composition import make_container
from entrypoints.container import CollectorJob, Container
from entrypoints.training import Reports, TrainOptions, plan_training, run_training

STARTED = time.perf_counter()
TASK = "go2_flat"


class Sequential:
    """A collector whose tick is over when it was granted."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._published: Published | None = None

    @property
    def slots(self) -> Slots:
        """Shared host memory."""
        return self._collector.slots

    def wait_ready(self, timeout_s: float) -> None:
        """Wait for the first observation."""
        self._collector.wait_ready(timeout_s)

    def grant(self, grant: Grant) -> None:
        """Let the collector do its tick, and wait until it has."""
        self._collector.grant(grant)
        self._published = self._collector.wait(60.0)

    def wait(self, timeout_s: float) -> Published:
        """Return the tick."""
        if self._published is None:
            raise RuntimeError("no tick was granted")
        return self._published

    def close(self) -> None:
        """End the process."""
        self._collector.close()


def in_sequence(container: Container) -> None:
    """Make the container's collectors sequential."""
    build = container.collector.provides

    def sequential(job: CollectorJob) -> Collector:
        if build is None:
            raise RuntimeError("the container has no collector")
        return Sequential(build(job))

    container.collector.set_provides(sequential)


def run(algo: str, options: argparse.Namespace) -> dict[str, object]:
    """Train once and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        container = make_container(Path(folder))
        if options.in_sequence:
            in_sequence(container)
        settings: dict[str, object] = {"train.iterations": options.iterations}
        if options.num_envs:
            settings["train.num_envs"] = options.num_envs
        given = TrainOptions(task=options.task, algo=algo, sim=options.sim, settings=settings, overrides=options.set)
        job = plan_training(container, dataclasses.replace(given, quiet=True))
        reports = Reports(started=lambda run, facts: None, warn=lambda line: print(line, file=sys.stderr))
        folder_of_run, summary = run_training(container, job, stop=StopFlag(), reports=reports)
        if folder_of_run is None:
            raise RuntimeError("the run was not written")
        source = container.trace_source(folder_of_run)
        report = check_trace(source)
        ticks = [record for record in source.records() if isinstance(record, TickTrace)]
        first_update = next((tick.update.device[0] for tick in ticks if tick.update is not None), None)
        acts = [end - begin for tick in ticks for phase, begin, end in tick.host if phase is HostPhase.ACT]
    device, timing, metrics = job.plan.device, report.summary, summary.metrics
    return {
        "benchmark": "train_throughput",
        "task": options.task,
        "algo": algo,
        "sim": options.sim,
        "mode": "sequential" if options.in_sequence else "overlapped",
        "num_envs": job.plan.config.task.train.num_envs,
        "iterations": summary.iteration,
        "tail_env_steps_per_sec": round(metrics["tail_env_steps_per_sec"], 1),
        "tail_iterations": metrics["tail_iterations"],
        "iteration_ms": _ms(timing.iteration),
        "inference_ms": _ms(timing.inference),
        "collect_ms": _ms(timing.collect),
        "updates_ms": _ms(timing.updates),
        "ingest_ms": _ms(metrics.get("ingest_s")),
        "act_host_ms": _ms(statistics.median(acts)),
        "overlap": None if timing.overlap is None else round(timing.overlap, 3),
        "trace_ticks": timing.ticks,
        "trace_breaks": {rule: breaks.count for rule, breaks in report.breaks.items()},
        "first_update_s": None if first_update is None else round(first_update - STARTED, 1),
        "gpu_memory_mib": round(torch.cuda.max_memory_allocated(device) / 2**20) if device.type == "cuda" else None,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "machine": platform.machine(),
        "torch": torch.__version__,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 3)


def main(arguments: Sequence[str]) -> None:
    """Run each case in a process of its own, so that memory and compiled kernels are its own too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default=TASK)
    parser.add_argument("--sim", default="mujoco")
    parser.add_argument("--algo", nargs="+", default=["sac", "td3", "flashsac"])
    parser.add_argument("--num-envs", type=int, default=0, help="0 takes the task's own")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--set", nargs="+", default=[], help="values of the configuration, as for unilab train")
    parser.add_argument("--sequential", action="store_true", help="add the sequential run of each algorithm")
    parser.add_argument("--in-sequence", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(run(options.algo[0], options)), flush=True)
        return
    for algo in options.algo:
        for extra in ([], ["--in-sequence"]) if options.sequential else ([],):
            case = ["--here", "--algo", algo, "--task", options.task, "--sim", options.sim]
            case += [
                "--iterations",
                str(options.iterations),
                "--num-envs",
                str(options.num_envs),
                *extra,
                *(["--set", *options.set] if options.set else []),
            ]
            subprocess.run([sys.executable, __file__, *case], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
