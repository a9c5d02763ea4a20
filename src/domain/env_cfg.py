"""What an environment is made of, as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from domain.errors import ConfigurationError
from domain.managers.action import ActionTermCfg
from domain.managers.command import CommandTermCfg
from domain.managers.curriculum import CurriculumTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.metrics import MetricsTermCfg
from domain.managers.observation import ObservationGroupCfg
from domain.managers.recorder import RecorderTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.physics import PhysicsBackend


@dataclass(frozen=True, kw_only=True)
class EnvCfg:
    """What an environment is made of; term functions come from the task's declaration.

    ``sim_dt`` is the physics step in s, ``decimation`` the physics steps of a control step,
    ``episode_length_s`` the time limit in s.
    """

    sim_dt: float
    decimation: int
    episode_length_s: float
    scale_rewards_by_dt: bool = True
    stagger_episodes: bool = True
    """Start the first episodes at random ages, so that rows do not time out together."""
    actions: Mapping[str, ActionTermCfg] = field(default_factory=dict)
    commands: Mapping[str, CommandTermCfg] = field(default_factory=dict)
    observations: Mapping[str, ObservationGroupCfg] = field(default_factory=dict)
    rewards: Mapping[str, RewardTermCfg] = field(default_factory=dict)
    terminations: Mapping[str, TerminationTermCfg] = field(default_factory=dict)
    events: Mapping[str, EventTermCfg] = field(default_factory=dict)
    curricula: Mapping[str, CurriculumTermCfg] = field(default_factory=dict)
    metrics: Mapping[str, MetricsTermCfg] = field(default_factory=dict)
    recorders: Mapping[str, RecorderTermCfg] = field(default_factory=dict)

    @property
    def step_dt(self) -> float:
        """Control step, s."""
        return self.sim_dt * self.decimation

    @property
    def max_episode_length(self) -> int:
        """Control steps until the time limit, rounded up."""
        return max(1, math.ceil(self.episode_length_s / self.step_dt - 1e-9))

    def check_timing(self, backend: PhysicsBackend) -> None:
        """Raise ConfigurationError for times that cannot be, or that the backend's model does not have."""
        for name, value in (("sim_dt", self.sim_dt), ("episode_length_s", self.episode_length_s)):
            if not 0.0 < value < torch.inf:
                raise ConfigurationError(f"env.{name} is {value}: give a finite number of seconds above 0")
        if not isinstance(self.decimation, int) or self.decimation < 1:
            raise ConfigurationError(f"env.decimation is {self.decimation}: a control step has at least 1 physics step")
        if abs(backend.index.timestep - self.sim_dt) > 1e-9:
            raise ConfigurationError(
                f"the model's timestep is {backend.index.timestep} s and env.sim_dt is {self.sim_dt} s: make them equal"
            )
