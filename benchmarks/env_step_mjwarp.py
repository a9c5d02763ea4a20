"""How close a recorded environment step comes to the physics alone on this GPU: one JSON line a number of worlds.

    python benchmarks/env_step.py --task go2_flat --sim mjwarp --num-envs 512 1024 2048 4096 8192

The whole step is one CUDA graph, and so is raw physics: the engine's own step of the same model, substeps and buffers,
as it comes, which before each of its runs gets, outside the clock, the state and control that the environment's step
began with. The environment's physics, with our constraint solver where it serves the model, is recorded alone as well:
what a step takes beside physics is over that. Times are CUDA events; figures are medians over alternating runs.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adapters.mjwarp.backend import MjwarpBackend
from adapters.mjwarp.compiled_model import compile_physics, put_on_device
from adapters.mjwarp.device import WarpDevice
from adapters.mjwarp.engine import mujoco_warp
from adapters.mjwarp.simulation import Simulation
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from domain.graphs import capture
from domain.physics import StateWrite
from entrypoints.container import Container
from entrypoints.motions import clips_of

PUBLIC = {512: 20_000, 4096: 129_000}
"""Env steps/s of the public unilab 1.5.2 on its G1 walk, its environment alone, on an H200."""


class RawPhysics:
    """The physics of a control step alone, recorded: ours, or the engine's as it comes."""

    def __init__(self, env: ManagerBasedRlEnv, backend: MjwarpBackend, task: str, *, ours: bool) -> None:
        model = compile_physics(TASKS[task].build("ppo").make_scene())
        self._device, self._ours = WarpDevice(backend.device), ours
        with self._device.scope():
            self._model = put_on_device(model)
            self._model.opt.run_qacc_smooth = not ours
            self._simulation = Simulation(model, self._model, env.num_envs, backend.capacities)
            self._live = self._simulation.integration_state()
            self._step(env.cfg.decimation)
        self._graph = capture(lambda: self._recorded(env.cfg.decimation), torch.Generator(device=backend.device))

    def _step(self, substeps: int) -> None:
        for left in reversed(range(substeps)):
            if self._ours:
                self._simulation.step(sensors=left == 0)
            else:
                mujoco_warp.step(self._model, self._simulation.data)

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


def part_of(backend: MjwarpBackend, work: Callable[[], None]) -> Callable[[], None]:
    """Return a part of the environment's step, recorded alone; it takes the same time whichever rows it is for."""

    def recorded() -> None:
        with backend.recording():
            work()

    return capture(recorded, torch.Generator(device=backend.device)).replay


def milliseconds(work: Callable[[], object]) -> float:
    """Return what ``work`` takes on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


@dataclass(frozen=True, kw_only=True)
class Times:
    """What parts of a step took in each pair, ms."""

    step: list[float]
    raw: list[float]
    """The engine's own step."""
    physics: list[float]
    """Ours, alone."""
    checked: list[float]
    """The backend's physics, with its checks."""
    commit: list[float]

    @property
    def beside(self) -> list[float]:
        """All but physics."""
        return [step - raw for step, raw in zip(self.step, self.physics, strict=True)]

    @property
    def checks(self) -> float:
        """What looking for broken rows and full buffers takes, median."""
        return statistics.median(c - p for c, p in zip(self.checked, self.physics, strict=True))


def time_pairs(
    env: ManagerBasedRlEnv, backend: MjwarpBackend, task: str, act: Callable[[], Tensor], pairs: int
) -> Times:
    """Time steps, and after each its physics and the backend's parts, from the state that it began with."""
    nobody = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    write = StateWrite(reset=nobody, written=nobody, qpos=backend.state.qpos.clone(), qvel=backend.state.qvel.clone())
    checked = part_of(backend, lambda: backend.step(env.cfg.decimation))
    commit = part_of(backend, lambda: backend.commit(write))
    times = Times(step=[], raw=[], physics=[], checked=[], commit=[])
    alone = [(times.raw, RawPhysics(env, backend, task, ours=False))]
    alone.append((times.physics, RawPhysics(env, backend, task, ours=True)))
    for _ in range(pairs):
        action, before = act(), env.state_dict()
        times.step.append(milliseconds(lambda: env.step(action)))  # noqa: B023
        after, control = env.state_dict(), backend.control.clone()
        times.commit.append(milliseconds(commit))
        for taken, physics in alone:
            physics.load(before, control)
            taken.append(milliseconds(physics.step))
        env.load_state_dict(before)
        backend.control.copy_(control)
        times.checked.append(milliseconds(checked))
        env.load_state_dict(after)
    return times


def measure(task: str, num_envs: int, pairs: int, warmup: int) -> dict[str, object]:
    """Measure one number of worlds."""
    device = torch.device("cuda", 0)
    declared = TASKS[task].build("ppo")
    scene = declared.make_scene()
    clips = clips_of(Container(), declared, scene)
    backend = MjwarpBackend(scene, num_envs, device=device)
    env = ManagerBasedRlEnv(declared.env, backend, seed=1, clips=clips)
    env.reset()
    env.record()
    generator = torch.Generator(device=device).manual_seed(0)

    def act() -> Tensor:
        # Small actions: a robot that stands and stumbles, as in training, instead of one that lies on the floor.
        return 0.3 * torch.randn(num_envs, env.actions.dim, device=device, generator=generator)

    for _ in range(warmup):
        env.step(act())
    times = time_pairs(env, backend, task, act, pairs)
    step, alone, beside = (statistics.median(part) for part in (times.step, times.raw, times.beside))
    commit = statistics.median(times.commit)
    rate, public = 1e3 * num_envs / step, PUBLIC.get(num_envs)
    result = {
        "benchmark": "env_step",
        "task": task,
        "sim": "mjwarp",
        "num_envs": num_envs,
        "env_steps_per_s": round(rate),
        "raw_env_steps_per_s": round(1e3 * num_envs / alone),
        "of_raw": round(alone / step, 4),
        "step_ms": round(step, 4),
        "step_ms_quartiles": [round(q, 4) for q in statistics.quantiles(times.step, n=4)],
        "raw_ms": round(alone, 4),
        "physics_ms": round(statistics.median(times.physics), 4),
        "beside_physics_ms": round(beside, 4),
        "of_it_checks_ms": round(times.checks, 4),
        "of_it_commit_ms": round(commit, 4),
        "of_it_managers_ms": round(beside - times.checks - commit, 4),
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
