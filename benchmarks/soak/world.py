"""An environment whose rows say where they come from, and whose troubles are a function of seed, step and env.

The process that steps it and the one that checks its rows both ask ``World``, so every row can be foretold.
"""

import time
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from application.robots import cartpole
from domain.entity import EntitySelector
from domain.env import ManagerBasedRlEnv, StepResult
from domain.env_cfg import EnvCfg
from domain.errors import ConfigurationError
from domain.managers.action import ActionTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp.actions import JointEffortAction
from domain.mdp.terminations import time_out
from domain.replay.layout import RowLayout
from domain.view import EnvView

_FOREVER_S = 600.0
_MASK = 0x7FFFFFFF
_CHUNK, _ROW, _SOURCE, _FAIL, _DELAY = range(5)


class Trouble(StrEnum):
    """Where the environment raises."""

    NONE = "none"
    BUILD = "build"
    RESET = "reset"
    STEP = "step"


def chance(seed: int, step: int, envs: Tensor, salt: int) -> Tensor:
    """Return a number in [0, 1) for each env, always the same one."""
    mixed = (envs * 2_654_435_761 + step * 40_503_071 + seed * 9_973_331 + salt * 7_919_003) & _MASK
    for _ in range(3):
        mixed = ((mixed ^ (mixed >> 15)) * 0x45D9F3B) & _MASK
    return mixed.double() / (_MASK + 1.0)


@dataclass(frozen=True, kw_only=True)
class World:
    """What happens in which step; steps are counted from 1 over the whole training."""

    seed: int
    num_envs: int
    critic: bool
    """Whether critics see a group of their own."""
    episode_steps: int
    bad_rows: float
    """Share of rows that break."""
    bad_chunks: float
    """Share of steps in which all rows break."""
    failures: float
    """Share of rows that end by failure."""
    delay_s: float = 0.0
    """Longest sleep of a step."""
    hang_step: int | None = None
    """A step that does not end."""
    broken_from: int | None = None
    """From this step on no reward is a number."""
    trouble: Trouble = Trouble.NONE
    trouble_step: int = 0

    @property
    def layout(self) -> RowLayout:
        """Actor: env, step, age; critic: step, env."""
        return RowLayout(obs=3, action=1, critic=2 if self.critic else 0)

    @property
    def envs(self) -> Tensor:
        """Return the numbers of the envs, int64."""
        return torch.arange(self.num_envs)

    def broken(self, step: int) -> tuple[Tensor, Tensor]:
        """Return which rows have no reward in a step, and which no observation; (num_envs,) bool."""
        envs = self.envs
        bad = chance(self.seed, step, envs, _ROW) < self.bad_rows
        bad |= chance(self.seed, step, torch.zeros_like(envs), _CHUNK) < self.bad_chunks
        by_reward = chance(self.seed, step, envs, _SOURCE) < 0.5
        if self.broken_from is not None and step >= self.broken_from:
            bad, by_reward = torch.ones_like(bad), torch.ones_like(bad)
        return bad & by_reward, bad & ~by_reward

    def fails(self, step: int) -> Tensor:
        """Return which rows end by failure in a step, (num_envs,) bool."""
        return chance(self.seed, step, self.envs, _FAIL) < self.failures

    def reward(self, step: int) -> Tensor:
        """Return each row's reward of a step that does not break, (num_envs,)."""
        return 100.0 * step + self.envs

    def delay(self, step: int) -> float:
        """Return how long a step sleeps, s."""
        if step == self.hang_step:
            return _FOREVER_S
        return self.delay_s * float(chance(self.seed, step, torch.zeros(1, dtype=torch.int64), _DELAY))


@dataclass
class Stage:
    """Whether a step is under way."""

    stepping: bool = False


def seen(env: EnvView, *, world: World, stage: Stage) -> Tensor:
    """Observe env, step and age, (num_envs, 3); rows that a step has just reset do not break."""
    step = int(env.step_count)
    age = env.episode_length.float()
    lost = world.broken(step)[1] & (age > 0) & stage.stepping
    return torch.stack((world.envs.float(), torch.full_like(age, step), age.masked_fill(lost, torch.nan)), dim=1)


def judged(env: EnvView, *, world: World) -> Tensor:
    """Observe step and env, (num_envs, 2)."""
    envs = world.envs.float()
    return torch.stack((torch.full_like(envs, int(env.step_count)), envs), dim=1)


def paid(env: EnvView, *, world: World) -> Tensor:
    """Reward as the world says, NaN where a row breaks."""
    step = int(env.step_count)
    return world.reward(step).masked_fill(world.broken(step)[0] & (step > 0), torch.nan)


def failed(env: EnvView, *, world: World) -> Tensor:
    """End rows as the world says."""
    return world.fails(int(env.step_count))


class Stumble:
    """A reset event that raises, where the world says so.

    Args:
        env: Not looked at.
        world: Says so.
    """

    def __init__(self, env: EnvView, *, world: World) -> None:
        self._trouble = world.trouble

    def __call__(self, mask: Tensor) -> None:
        """Raise, or do nothing."""
        if self._trouble is Trouble.RESET:
            raise ZeroDivisionError("planted in a reset")


class SoakEnv(ManagerBasedRlEnv):
    """A cart with a pole, which nobody looks at, in a troubled world."""

    def __init__(self, world: World) -> None:
        self._world, self._stage = world, Stage()
        params: dict[str, object] = {"world": world}
        watched = ObservationTermCfg(func=seen, params={"world": world, "stage": self._stage})
        groups = {"actor": ObservationGroupCfg(terms={"seen": watched})}
        if world.critic:
            groups["critic"] = ObservationGroupCfg(terms={"judged": ObservationTermCfg(func=judged, params=params)})
        cart = EntitySelector(joints=("slider",))
        cfg = EnvCfg(
            sim_dt=0.01,
            decimation=1,
            episode_length_s=0.01 * world.episode_steps,
            scale_rewards_by_dt=False,
            actions={"effort": ActionTermCfg(func=JointEffortAction, params={"joints": cart, "scale": 1.0})},
            observations=groups,
            rewards={"paid": RewardTermCfg(func=paid, weight=1.0, params=params)},
            events={"stumble": EventTermCfg(func=Stumble, mode="reset", params=params)},
            terminations={
                "failed": TerminationTermCfg(func=failed, params=params),
                "time_out": TerminationTermCfg(func=time_out, time_out=True),
            },
        )
        backend = MujocoBackend(cartpole.build(timestep=cfg.sim_dt), world.num_envs, cpu_ids=None, log_dir=None)
        super().__init__(cfg, backend, seed=world.seed)

    def step(self, action: Tensor) -> StepResult:
        """Sleep, then step or raise."""
        step = int(self.view.step_count) + 1
        time.sleep(self._world.delay(step))
        if self._world.trouble is Trouble.STEP and step == self._world.trouble_step:
            raise ZeroDivisionError("planted in a step")
        self._stage.stepping = True
        try:
            return super().step(action)
        finally:
            self._stage.stepping = False


def build(world: World) -> ManagerBasedRlEnv:
    """Build the environment, in the collector's process."""
    if world.trouble is Trouble.BUILD:
        raise ConfigurationError("planted in a build")
    return SoakEnv(world)
