"""The use case of evaluation: a fixed number of whole episodes under a policy that does not learn."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from application.ports import Observations, Policy
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Figures over whole episodes."""

    episodes: int
    mean_return: float
    """Undiscounted sum of step rewards."""
    std_return: float
    """Population standard deviation over episodes."""
    mean_unscaled_return: float
    """The same without the control step, where rewards are scaled by it; else equal."""
    std_unscaled_return: float
    mean_length: float
    """Control steps."""
    rewards: Mapping[str, float]
    """Weight times value of each reward term, without dt, mean over steps."""
    terminations: Mapping[str, float]
    """Share of episodes in which each termination term fired at the end."""
    metrics: Mapping[str, float]
    """Mean over episodes of each metric, e.g. ``motion/error_body_pos``; of those whose row did not break."""
    invalid: float
    """Share of episodes that ended because the row broke."""
    qpos: Tensor | None
    """(frames, nq): env 0 through its first episode, where asked for."""


def evaluate(env: ManagerBasedRlEnv, policy: Policy, *, episodes: int, record_env0: bool = False) -> Evaluation:
    """Play exactly ``episodes`` whole episodes.

    Each env plays a number fixed beforehand, so rows that end early do not push long episodes out of the mean.

    Args:
        env: Built with ``stagger_episodes`` off; all its rows are reset.
        policy: Called with the observations of all rows.
        episodes: How many count; at least one.
        record_env0: Keep the positions of env 0 during its first episode.

    Raises:
        ConfigurationError: No episode is asked for, or first episodes would start at random ages.
    """
    if episodes < 1:
        raise ConfigurationError(f"episodes is {episodes}: evaluate at least 1")
    if env.cfg.stagger_episodes:
        raise ConfigurationError("env.stagger_episodes is on: an evaluation counts whole episodes, switch it off")
    tally = _Tally(env, episodes)
    frames: list[Tensor] = []
    observations: Observations = env.reset()
    while tally.remaining():
        if record_env0 and tally.in_first_episode():
            frames.append(env.view.state.qpos[0].clone())
        result = env.step(policy(observations))
        tally.add(result.reward, result.terminated | result.truncated, result.valid)
        observations = result.observations
    return tally.figures(torch.stack(frames) if frames else None)


class _Tally:
    """Sums over the counted steps and episodes, in float64 on the environment's device."""

    def __init__(self, env: ManagerBasedRlEnv, episodes: int) -> None:
        self._env = env
        self._episodes = episodes
        device, n = env.device, env.num_envs
        rows = torch.arange(n, device=device)
        self._quota = torch.full_like(rows, episodes // n) + (rows < episodes % n)
        self._most = -(-episodes // n)
        self._played = torch.zeros_like(rows)
        self._return = torch.zeros(n, dtype=torch.float64, device=device)
        self._returns = torch.zeros(n, self._most, dtype=torch.float64, device=device)
        self._rewards = torch.zeros(len(env.rewards.names), dtype=torch.float64, device=device)
        self._fired = torch.zeros(len(env.terminations.names), dtype=torch.float64, device=device)
        self._metrics = torch.zeros(len(env.metric_names), dtype=torch.float64, device=device)
        self._steps = torch.zeros((), dtype=torch.int64, device=device)
        self._invalid = torch.zeros((), dtype=torch.int64, device=device)

    def remaining(self) -> bool:
        """Whether an episode that counts is still to be played."""
        return bool((self._played < self._quota).any())

    def in_first_episode(self) -> bool:
        """Whether env 0 has not ended an episode yet."""
        return int(self._played[0]) == 0

    def add(self, reward: Tensor, done: Tensor, valid: Tensor) -> None:
        """Count one step of the rows that still play for their quota."""
        counted = self._played < self._quota
        rows = counted.unsqueeze(1)
        ended = counted & done
        self._steps += counted.sum()
        self._rewards += torch.where(rows, self._env.rewards.weighted, 0.0).double().sum(dim=0)
        self._fired += (self._env.terminations.fired & ended.unsqueeze(1)).sum(dim=0)
        self._invalid += (ended & ~valid).sum()
        whole = (ended & valid).unsqueeze(1)
        self._metrics += torch.where(whole, self._env.episode_metrics, 0.0).double().sum(dim=0)
        self._return += reward
        slot = self._played.clamp(max=self._most - 1).unsqueeze(1)
        stored = torch.where(ended.unsqueeze(1), self._return.unsqueeze(1), self._returns.gather(1, slot))
        self._returns.scatter_(1, slot, stored)
        self._return.masked_fill_(done, 0.0)
        self._played += ended

    def figures(self, qpos: Tensor | None) -> Evaluation:
        """Bring the results to the host."""
        env = self._env
        in_quota = torch.arange(self._most, device=self._quota.device) < self._quota.unsqueeze(1)
        returns = self._returns[in_quota]
        mean, std = float(returns.mean()), float(returns.std(correction=0))
        dt = env.cfg.step_dt if env.cfg.scale_rewards_by_dt else 1.0
        steps = int(self._steps)
        rewards, fired = (self._rewards / steps).tolist(), (self._fired / self._episodes).tolist()
        invalid = int(self._invalid)
        metrics = (self._metrics / max(1, self._episodes - invalid)).tolist()
        return Evaluation(
            episodes=self._episodes,
            mean_return=mean,
            std_return=std,
            mean_unscaled_return=mean / dt,
            std_unscaled_return=std / dt,
            mean_length=steps / self._episodes,
            rewards=dict(zip(env.rewards.names, rewards, strict=True)),
            terminations=dict(zip(env.terminations.names, fired, strict=True)),
            metrics=dict(zip(env.metric_names, metrics, strict=True)),
            invalid=invalid / self._episodes,
            qpos=qpos,
        )


def zero_policy(action_dim: int) -> Policy:
    """Return a policy whose actions are all 0."""

    def act(observations: Observations) -> Tensor:
        rows, device = _rows(observations)
        return torch.zeros(rows, action_dim, device=device)

    return act


def random_policy(action_dim: int, seed: int, device: torch.device) -> Policy:
    """Return a policy whose actions are uniform in [-1, 1), from a generator of its own on the env's ``device``."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def act(observations: Observations) -> Tensor:
        rows, _ = _rows(observations)
        return torch.rand(rows, action_dim, device=device, generator=generator) * 2.0 - 1.0

    return act


def _rows(observations: Observations) -> tuple[int, torch.device]:
    first = next(iter(observations.values()))
    return first.shape[0], first.device
