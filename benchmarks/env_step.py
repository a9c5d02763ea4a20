"""How close an environment step comes to the physics alone: one JSON line.

    python benchmarks/env_step.py --task go2_flat --sim mujoco --num-envs 512

Environment and raw physics alternate step by step. Raw physics is a second ``mujoco.batch.Batch`` with
the same threads, substeps and per-env model fields and no bound outputs; before each of its steps it
gets, outside the clock, the state, control and fields that the environment's step began with. Ratios
are medians over pairs; the environment's time includes resets.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from adapters.mujoco.compiled_model import compile_physics
from adapters.mujoco.engine import batch as engine_batch
from application.robots.scene import SceneModel
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.managers.state import select
from entrypoints.container import Container
from entrypoints.motions import clips_of


@dataclass
class Clock:
    """Wall and CPU seconds of repeated work."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], object]) -> None:
        """Run ``work`` once and keep what it took."""
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


class TimedBackend(MujocoBackend):
    """Sums the time inside physics steps (with their read) and commits."""

    physics_s = 0.0
    commit_s = 0.0

    def step(self, substeps: int) -> None:
        """Step, timed."""
        start = time.perf_counter()
        super().step(substeps)
        self.physics_s += time.perf_counter() - start

    def commit(self, write: Any) -> None:
        """Commit, timed."""
        start = time.perf_counter()
        super().commit(write)
        self.commit_s += time.perf_counter() - start


class TimedEnv(ManagerBasedRlEnv):
    """Sums the time spent on rows that reset: staging and renewed observations."""

    reset_s = 0.0
    resets = 0

    def _reset_rows(self, rows: Tensor) -> None:
        start = time.perf_counter()
        super()._reset_rows(rows)
        self.reset_s += time.perf_counter() - start
        self.resets += int(rows.sum())

    def _renew(self, before: Any) -> dict[str, Tensor]:
        start = time.perf_counter()
        renewed = super()._renew(before)
        self.reset_s += time.perf_counter() - start
        return renewed


class RawPhysics:
    """A second batch that repeats the environment's physics steps."""

    def __init__(self, scene: SceneModel, env: ManagerBasedRlEnv, threads: int) -> None:
        model = compile_physics(scene)
        self._batch = engine_batch.Batch(model, env.num_envs, threads)
        self._ctrl = self._batch.bind("ctrl")
        self._substeps = env.cfg.decimation
        self._fields = {name: self._batch.expand(name) for name in select(env.view.writes.state_dict(), "fields")}

    def load(self, state: Tensor, fields: dict[str, Tensor], control: Tensor) -> None:
        """Take over what the environment's step began with."""
        self._batch.state[...] = state.numpy()
        for name, target in self._fields.items():
            target[...] = fields[name].numpy()
        np.copyto(self._ctrl, control.numpy())

    def step(self) -> None:
        """Run the physics of one control step."""
        self._batch.step(nstep=self._substeps)


def ratio(raw: list[float], env: list[float]) -> dict[str, float]:
    """Return raw time over environment time: median and quartiles of the pairs, and of the sums."""
    pairs = [r / e for r, e in zip(raw, env, strict=True)]
    low, middle, high = statistics.quantiles(pairs, n=4)
    sums = sum(raw) / sum(env)
    return {"median": round(middle, 4), "q25": round(low, 4), "q75": round(high, 4), "sums": round(sums, 4)}


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="go2_flat", choices=sorted(TASKS))
    parser.add_argument("--sim", default="mujoco", choices=["mujoco", "mjwarp"])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[512])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--torch-threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.torch_threads)
    if options.sim == "mjwarp":
        from benchmarks.env_step_mjwarp import report

        report(options.task, options.num_envs, options.pairs, options.warmup)
        return
    for num_envs in options.num_envs:
        options.num_envs = num_envs
        print(json.dumps(measure(options)), flush=True)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Measure one number of environments."""
    task = TASKS[options.task].build("ppo")
    scene = task.make_scene()
    backend = TimedBackend(scene, options.num_envs)
    clips = clips_of(Container(), task, scene)
    env = TimedEnv(task.env, backend, seed=1, clips=clips)
    threads = len(backend.thread_affinity()) or 1
    raw = RawPhysics(scene, env, threads)
    env.reset()
    generator = torch.Generator().manual_seed(0)

    def act() -> Tensor:
        # Small actions: a robot that stands and stumbles, as in training, instead of one that lies on the floor.
        return 0.3 * torch.randn(options.num_envs, env.actions.dim, generator=generator)

    for _ in range(options.warmup):
        env.step(act())
    backend.physics_s = backend.commit_s = env.reset_s = 0.0
    env.resets = 0
    env_clock, raw_clock = Clock(), Clock()
    with torch.inference_mode():
        for _ in range(options.pairs):
            action = act()
            before = backend.snapshot()
            fields = select(env.view.writes.state_dict(), "fields")
            env_clock.time(lambda: env.step(action))  # noqa: B023
            raw.load(before["state"], fields, backend.control)
            raw_clock.time(raw.step)

    total = sum(env_clock.wall)
    reset = env.reset_s + backend.commit_s
    result: dict[str, object] = {
        "benchmark": "env_step",
        "task": options.task,
        "sim": options.sim,
        "num_envs": options.num_envs,
        "env_steps_per_s": round(options.num_envs * options.pairs / total),
        "raw_env_steps_per_s": round(options.num_envs * options.pairs / sum(raw_clock.wall)),
        "of_raw_wall": ratio(raw_clock.wall, env_clock.wall),
        "of_raw_cpu": ratio(raw_clock.cpu, env_clock.cpu),
        "share": {
            "physics": round(backend.physics_s / total, 4),
            "reset": round(reset / total, 4),
            "managers": round(1.0 - (backend.physics_s + reset) / total, 4),
        },
        "resets_per_step": round(env.resets / options.pairs, 3),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "pairs": options.pairs,
        "physics_threads": threads,
        "torch_threads": options.torch_threads,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    return result


if __name__ == "__main__":
    main()
