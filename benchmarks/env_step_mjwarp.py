"""How close a recorded environment step comes to the physics alone on this GPU: one JSON line a number of worlds.

    python benchmarks/env_step.py --task go2_flat --sim mjwarp --num-envs 512 1024 2048 4096 8192

The whole step is one CUDA graph, and so is raw physics: the engine's own step of the same model, substeps and buffers,
which before each of its runs gets, outside the clock, the state and control that the environment's step began with.
Times are CUDA events; figures are medians over alternating pairs.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from adapters.mjwarp.backend import MjwarpBackend
from adapters.mjwarp.compiled_model import compile_physics, put_on_device
from adapters.mjwarp.device import WarpDevice
from adapters.mjwarp.simulation import Simulation
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.graphs import capture
from domain.physics import StateWrite

PUBLIC = {512: 20_000, 4096: 129_000}
"""Env steps/s of the public unilab 1.5.2 on its G1 walk, its environment alone, on an H200."""


class RawPhysics:
    """The engine alone, recorded."""

    def __init__(self, env: ManagerBasedRlEnv, backend: MjwarpBackend, task: str) -> None:
        declared = TASKS[task].build("ppo")
        self._device = WarpDevice(backend.device)
        model = compile_physics(declared.make_scene())
        with self._device.scope():
            self._simulation = Simulation(model, put_on_device(model), env.num_envs, backend.capacities)
            self._live = self._simulation.integration_state()
            self._step(env.cfg.decimation)
        self._graph = capture(lambda: self._recorded(env.cfg.decimation), torch.Generator(device=backend.device))

    def _step(self, substeps: int) -> None:
        for _ in range(substeps):
            self._simulation.step()

    def _recorded(self, substeps: int) -> None:
        with self._device.recording():
            self._step(substeps)

    def load(self, state: dict[str, Tensor], control: Tensor) -> None:
        """Take over what the environment's step began with."""
        for name, tensor in self._live.items():
            tensor.copy_(state[f"backend/{name}"])
        self._live["ctrl"].copy_(control)

    def step(self) -> None:
        """Run the physics of one control step."""
        self._graph.replay()


def split(env: ManagerBasedRlEnv, backend: MjwarpBackend, pairs: int) -> tuple[float, float]:
    """Return what the backend's part of a step takes, ms: stepping with its checks, and committing writes.

    Both are recorded alone, as they are in the step, whose work does not depend on which rows are written.
    """
    nobody = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    write = StateWrite(reset=nobody, written=nobody, qpos=backend.state.qpos.clone(), qvel=backend.state.qvel.clone())
    medians = []
    for part in (lambda: backend.step(env.cfg.decimation), lambda: backend.commit(write)):
        graph = capture(partial(_recorded, backend, part), torch.Generator(device=backend.device))
        medians.append(statistics.median(milliseconds(graph.replay) for _ in range(pairs)))
    return medians[0], medians[1]


def _recorded(backend: MjwarpBackend, part: Callable[[], None]) -> None:
    with backend.recording():
        part()


def milliseconds(work: Callable[[], object]) -> float:
    """Return what ``work`` takes on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def measure(task: str, num_envs: int, pairs: int, warmup: int) -> dict[str, object]:
    """Measure one number of worlds."""
    device = torch.device("cuda", 0)
    declared = TASKS[task].build("ppo")
    backend = MjwarpBackend(declared.make_scene(), num_envs, device=device)
    env = ManagerBasedRlEnv(declared.env, backend, seed=1)
    env.reset()
    env.record()
    raw = RawPhysics(env, backend, task)
    generator = torch.Generator(device=device).manual_seed(0)

    def act() -> Tensor:
        # Small actions: a robot that stands and stumbles, as in training, instead of one that lies on the floor.
        return 0.3 * torch.randn(num_envs, env.actions.dim, device=device, generator=generator)

    for _ in range(warmup):
        env.step(act())
    whole, physics = [], []
    for _ in range(pairs):
        action, before = act(), env.state_dict()
        torch.cuda.synchronize()
        whole.append(milliseconds(lambda: env.step(action)))  # noqa: B023
        raw.load(before, backend.control)
        torch.cuda.synchronize()
        physics.append(milliseconds(raw.step))
    step, alone = statistics.median(whole), statistics.median(physics)
    rate = 1e3 * num_envs / step
    stepping, committing = split(env, backend, pairs)
    public = PUBLIC.get(num_envs)
    result = {
        "benchmark": "env_step",
        "task": task,
        "sim": "mjwarp",
        "num_envs": num_envs,
        "env_steps_per_s": round(rate),
        "raw_env_steps_per_s": round(1e3 * num_envs / alone),
        "of_raw": round(alone / step, 4),
        "step_ms": round(step, 4),
        "raw_ms": round(alone, 4),
        "physics_checks_ms": round(stepping - alone, 4),
        "commit_ms": round(committing, 4),
        "managers_ms": round(step - stepping - committing, 4),
        "beside_physics_ms": round(statistics.median(w - p for w, p in zip(whole, physics, strict=True)), 4),
        "step_ms_quartiles": [round(q, 4) for q in statistics.quantiles(whole, n=4)],
        "of_public_unilab_1.5.2_g1_walk": None if public is None else round(rate / public, 2),
        "capacities": [backend.capacities.contacts, backend.capacities.constraints],
        "notice": backend.notice(),
        "memory_mib": round(torch.cuda.max_memory_allocated(device) / 2**20),
        "pairs": pairs,
        "gpu": torch.cuda.get_device_name(device),
        "torch": torch.__version__,
    }
    env.close()
    return result


def report(task: str, worlds: Sequence[int], pairs: int, warmup: int) -> None:
    """Print one line a number of worlds."""
    for num_envs in worlds:
        print(json.dumps(measure(task, num_envs, pairs, warmup)), flush=True)
