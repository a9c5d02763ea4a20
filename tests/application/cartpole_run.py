"""A short real training run: cartpole on MuJoCo with PPO. As a program it resumes a checkpoint in its own process."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from adapters.checkpoints.torch_store import TorchCheckpointStore
from adapters.rsl_rl.ppo import RslRlPpo
from application.onpolicy import TIMING_METRICS, train_on_policy
from application.ports import MetricSink, Run
from application.settings import PpoSettings
from application.tasks.registry import TASKS
from application.training import StopFlag, TrainOutput, TrainPlan, TrainSummary
from domain.env import ManagerBasedRlEnv
from tests.support.tasks import make_env

NAME = "cartpole_balance"
CPU = torch.device("cpu")


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


def make_learner(env: ManagerBasedRlEnv, *, seed: int = 3) -> RslRlPpo:
    declared = TASKS[NAME].build("ppo").learner_as(PpoSettings)
    settings = declared.model_copy(update={"obs_normalization": True, "rollout_steps": 12})
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
    env = make_env(NAME, 16, seed=seed)
    try:
        plan = TrainPlan(task=NAME, algo="ppo", iterations=iterations, save_interval=10)
        output = TrainOutput(run=Run(path=folder), checkpoints=TorchCheckpointStore(), sinks=sinks, warn=print)
        return train_on_policy(env, make_learner(env, seed=seed), plan, output, resume_from=resume_from, stop=stop)
    finally:
        env.close()


def main(folder: Path, checkpoint: Path, iterations: int) -> None:
    """Resume, with another seed, so that nothing equal comes from the seed."""
    sink = ListSink()
    resume_from = TorchCheckpointStore().load(checkpoint, CPU)
    train(folder, iterations, resume_from=resume_from, sinks=[sink], seed=99)
    (folder / "metrics.json").write_text(json.dumps(sink.timeless()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
