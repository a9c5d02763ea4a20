"""Check PPO on several GPUs: ``torchrun --nproc-per-node 2 benchmarks/ppo_two_gpus.py`` (``PYTHONPATH=src``).

Every rank learns from observations of its own and prints one JSON line. The ranks stay in step where ``weights`` and
``learning_rate`` are equal and ``first_action`` differs; a rank that drifts prints other weights.
"""

import json

import torch

from adapters.rsl_rl.ppo import RslRlPpo
from application.settings import PpoSettings
from domain.env import StepResult

ENVS, OBSERVATION, ACTION, ITERATIONS = 256, 48, 12, 5


def main() -> None:
    """Learn on made-up transitions."""
    cpu = torch.device("cpu")
    example = {"actor": torch.zeros(ENVS, OBSERVATION)}
    settings = PpoSettings(obs_normalization=True)
    learner = RslRlPpo(settings, example, ACTION, device=torch.device("cuda"), seed=1)
    generator = torch.Generator().manual_seed(learner.rank)
    never = torch.zeros(ENVS, dtype=torch.bool)
    first: list[float] = []
    metrics: dict[str, float] = {}
    for _ in range(ITERATIONS):
        for _ in range(learner.rollout_steps):
            observations = {"actor": torch.randn(ENVS, OBSERVATION, generator=generator, device=cpu)}
            action = learner.act(observations)
            first = first or action[0, :2].tolist()
            reward = -action.square().sum(dim=1)
            learner.record(StepResult(observations, reward, never, never, observations, ~never))
        metrics = learner.update(observations)
    weights = [float(p.double().sum()) for p in learner.algorithm.actor.state_dict().values()]
    line = {
        "rank": learner.rank,
        "world_size": learner.world_size,
        "writes_run": learner.writes_run,
        "first_action": first,
        "learning_rate": metrics["learning_rate"],
        "weights": weights,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
