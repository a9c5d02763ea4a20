"""A short real training run: cartpole on MuJoCo with PPO. As a program it resumes a checkpoint in its own process."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from adapters.mujoco.backend import MujocoBackend
from adapters.rsl_rl.ppo import RslRlPpo
from application.onpolicy import TIMING_METRICS, StopFlag, TrainOutput, TrainPlan, TrainSummary, train_on_policy
from application.ports import MetricSink, Payload, Run
from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv

NAME = "cartpole_balance"
CPU = torch.device("cpu")


class PlainStore:
    """Checkpoints written directly."""

    def save(self, path: Path, payload: Payload) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(payload, path)

    def load(self, path: Path, device: torch.device) -> Payload:
        loaded: Payload = torch.load(path, map_location=device, weights_only=True)
        return loaded


class ListSink:
    """Keeps every row."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}
        self.closed = False

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        self.rows[iteration] = dict(metrics)

    def close(self) -> None:
        self.closed = True

    def timeless(self) -> dict[int, dict[str, float]]:
        """Return the rows without what depends on the clock."""
        return {i: {k: v for k, v in row.items() if k not in TIMING_METRICS} for i, row in self.rows.items()}


def make_env(num_envs: int = 16, *, seed: int = 3) -> ManagerBasedRlEnv:
    task = TASKS[NAME].build("ppo")
    return ManagerBasedRlEnv(task.env, MujocoBackend(task.scene(task.env.sim_dt), num_envs), seed=seed)


def make_learner(env: ManagerBasedRlEnv, *, seed: int = 3) -> RslRlPpo:
    settings = TASKS[NAME].build("ppo").ppo.model_copy(update={"obs_normalization": True, "rollout_steps": 12})
    return RslRlPpo(settings, env.observations.current, env.actions.dim, device=CPU, seed=seed)


def train(
    folder: Path,
    iterations: int,
    *,
    resume_from: Mapping[str, object] | None = None,
    sinks: Sequence[MetricSink] = (),
    seed: int = 3,
    stop: StopFlag | None = None,
) -> TrainSummary:
    torch.set_num_threads(1)
    env = make_env(seed=seed)
    try:
        plan = TrainPlan(task=NAME, algo="ppo", iterations=iterations, save_interval=10)
        output = TrainOutput(run=Run(path=folder), checkpoints=PlainStore(), sinks=sinks, warn=print)
        return train_on_policy(env, make_learner(env, seed=seed), plan, output, resume_from=resume_from, stop=stop)
    finally:
        env.close()


def main(folder: Path, checkpoint: Path, iterations: int) -> None:
    """Resume, with another seed, so that nothing equal comes from the seed."""
    sink = ListSink()
    resume_from = PlainStore().load(checkpoint, CPU)
    train(folder, iterations, resume_from=resume_from, sinks=[sink], seed=99)
    (folder / "metrics.json").write_text(json.dumps(sink.timeless()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
