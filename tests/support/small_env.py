"""Environments of a few terms on the fake backend, and terms whose values a reader can count."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv, StepResult
from domain.env_cfg import EnvCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp.terminations import time_out
from domain.rng import TorchManagerRng
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend


def make_view(num_envs: int = 2, *, seed: int = 0, backend: FakeBackend | None = None) -> EnvView:
    """Return a view without managers; steps last 0.02 s, episodes 100 steps."""
    backend = backend or FakeBackend(num_envs)
    rng = TorchManagerRng(seed, backend.num_envs, backend.device)
    return EnvView(backend, rng, decimation=2, max_episode_length=100)


def draw_block(env: EnvView) -> None:
    """Freeze the columns and fill the first block."""
    env.rng.freeze()
    env.rng.advance()


def mask(*rows: int) -> Tensor:
    """Return a row mask from zeros and ones."""
    return torch.tensor(rows, dtype=torch.bool)


def episode_age(env: EnvView) -> Tensor:
    """Observe how many steps the episode has lasted, (num_envs, 1)."""
    return env.episode_length.float().unsqueeze(1)


def global_step(env: EnvView) -> Tensor:
    """Observe the global step, (num_envs, 1)."""
    return env.step_count.float().expand(env.num_envs, 1)


def age(env: EnvView) -> Tensor:
    """Reward the episode's age, (num_envs,)."""
    return env.episode_length.float()


def one(env: EnvView) -> Tensor:
    """Reward 1."""
    return torch.ones(env.num_envs)


def nan_at(env: EnvView, *, row: int, step: int, value: float = 1.0) -> Tensor:
    """Reward ``value``, but NaN in one row of one global step."""
    rows = torch.arange(env.num_envs)
    return torch.where((rows == row) & (env.step_count == step), torch.nan, value)


def nan_column_at(env: EnvView, *, row: int, step: int) -> Tensor:
    """Observe the episode's age, but NaN in one row that reaches this age at this global step."""
    breaks = (torch.arange(env.num_envs) == row) & (env.step_count == step) & (env.episode_length == step)
    return torch.where(breaks, torch.nan, age(env)).unsqueeze(1)


def fails_at(env: EnvView, *, row: int, step: int) -> Tensor:
    """End one row at one global step."""
    return (torch.arange(env.num_envs) == row) & (env.step_count == step)


def observation(func: Any, **settings: Any) -> ObservationTermCfg:
    """Return a term; ``params`` and everything else are settings of the term."""
    return ObservationTermCfg(func=func, **settings)


def reward(func: Any, weight: float = 1.0, **params: object) -> RewardTermCfg:
    """Return a reward term."""
    return RewardTermCfg(func=func, weight=weight, params=params)


def ends(func: Any, **params: object) -> TerminationTermCfg:
    """Return a failure."""
    return TerminationTermCfg(func=func, params=params)


LIMIT: Mapping[str, TerminationTermCfg] = {"time_out": TerminationTermCfg(func=time_out, time_out=True)}
AGE: Mapping[str, ObservationGroupCfg] = {
    "actor": ObservationGroupCfg(terms={"age": ObservationTermCfg(func=episode_age)})
}


def make_cfg(**parts: Any) -> EnvCfg:
    """Return a configuration with steps of 0.02 s, 1000 steps an episode, that observes the episode's age."""
    default = {"sim_dt": 0.01, "decimation": 2, "episode_length_s": 20.0, "stagger_episodes": False}
    return EnvCfg(**{**default, "observations": AGE, **parts})


def make_env(
    num_envs: int = 2, *, backend: FakeBackend | None = None, seed: int = 0, started: bool = True, **parts: Any
) -> ManagerBasedRlEnv:
    """Build an environment of ``make_cfg(**parts)`` and reset it, unless it is not to be ``started``."""
    env = ManagerBasedRlEnv(make_cfg(**parts), backend or FakeBackend(num_envs), seed=seed)
    if started:
        env.reset()
    return env


def step(env: ManagerBasedRlEnv, times: int = 1, action: float = 0.0) -> StepResult:
    """Step with a constant action and return the last result."""
    for _ in range(times):
        result = env.step(torch.full((env.num_envs, env.actions.dim), action))
    return result
