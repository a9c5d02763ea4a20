"""PPO of RSL-RL 5.5.1 behind the on-policy learner port, without its runner.

The library stores a step when it has acted. Rewards and ends stay on the environment's device and join the storage in
one copy when the rollout is full, where time-outs get the critic's value of their final observation. So the library's
own rule, which takes the value of the observation before the step, is never used.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from torch import Tensor

from adapters.rsl_rl.actor_critic import (
    FORMAT,
    KIND,
    NetworkPlan,
    build_actor,
    build_critic,
    load_weights,
    snapshot_policy,
    table,
)
from adapters.rsl_rl.intake import ObservationIntake
from adapters.rsl_rl.launch import Ranks, join, read_ranks
from adapters.rsl_rl.rollout_rewards import RolloutRewards
from application.ports import Observations, Payload, Policy
from application.settings import PpoSettings
from domain.env import StepResult
from domain.errors import ConfigurationError, DataError
from domain.rng import derive_seed


class RslRlPpo:
    """OnPolicyLearner over RSL-RL's algorithm, networks and storage.

    The library draws from Torch's global generators, so this object owns them from its construction on: weights come
    from the run's stream ``init``, exploration and shuffling from ``learner`` (``learner/<rank>`` beyond rank 0).

    Args:
        settings: Of the algorithm.
        observations: An example, (num_envs, width) by group: ``actor``, and ``critic`` where it sees more.
        action_dim: Columns of an action.
        device: The learner's; ``cuda`` under torchrun stands for the rank's own GPU.
        seed: Of the run, equal on all ranks.

    Raises:
        ConfigurationError: No ``actor`` group, or fewer transitions in a rollout than mini-batches.
        DeviceError: Several ranks without a CUDA device each.
    """

    def __init__(
        self, settings: PpoSettings, observations: Observations, action_dim: int, *, device: torch.device, seed: int
    ) -> None:
        self._settings = settings
        self._plan = NetworkPlan.of(settings, observations, action_dim)
        self._num_envs = observations["actor"].shape[0]
        if self._num_envs * settings.rollout_steps < settings.mini_batches:
            raise ConfigurationError(
                f"ppo.mini_batches is {settings.mini_batches}, above num_envs times ppo.rollout_steps "
                f"({self._num_envs * settings.rollout_steps}): lower it"
            )
        self._env_device = observations["actor"].device
        self._ranks: Ranks = read_ranks(device)
        self._device = self._ranks.device
        self._algorithm: Any = self._build(seed)
        self._intake = ObservationIntake(self._plan.groups, self._num_envs, self._env_device, self._device)
        self._rewards = RolloutRewards(
            settings.rollout_steps,
            self._num_envs,
            self._plan.critic_group,
            self._plan.critic_observation,
            self._env_device,
        )
        self._later = torch.zeros(self._num_envs, device=self._device)
        torch.manual_seed(derive_seed(seed, f"learner/{self.rank}" if self.rank else "learner"))

    def _build(self, seed: int) -> Any:
        settings, plan = self._settings, self._plan
        multi_gpu = join(self._ranks)
        torch.manual_seed(derive_seed(seed, "init"))
        actor, critic = build_actor(plan, settings.init_std), build_critic(plan)
        example = TensorDict(
            {name: torch.zeros(self._num_envs, width) for name, width in plan.groups.items()},
            batch_size=[self._num_envs],
        )
        device = str(self._device)
        storage = RolloutStorage("rl", self._num_envs, settings.rollout_steps, example, [plan.action], device)
        algorithm: Any = PPO(
            actor,
            critic,
            storage,
            num_learning_epochs=settings.epochs,
            num_mini_batches=settings.mini_batches,
            clip_param=settings.clip_param,
            gamma=settings.gamma,
            lam=settings.lam,
            value_loss_coef=settings.value_loss_coef,
            entropy_coef=settings.entropy_coef,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_grad_norm,
            use_clipped_value_loss=settings.clip_value_loss,
            schedule=settings.schedule,
            desired_kl=settings.desired_kl,
            device=device,
            multi_gpu_cfg=multi_gpu,
        )
        algorithm.train_mode()
        if multi_gpu is not None:
            algorithm.broadcast_parameters()
        return algorithm

    @property
    def algorithm(self) -> Any:
        """RSL-RL's own object, with networks, optimiser and storage; for tests and tools."""
        return self._algorithm

    @property
    def rollout_steps(self) -> int:
        """Env steps between two updates."""
        return self._settings.rollout_steps

    @property
    def rank(self) -> int:
        """This process among those that learn together."""
        return self._ranks.rank

    @property
    def world_size(self) -> int:
        """How many processes learn together."""
        return self._ranks.world_size

    @property
    def writes_run(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def act(self, observations: Observations) -> Tensor:
        """Return a sampled action on the env's device; the inputs are in the storage when this returns."""
        with torch.no_grad():
            observed = self._intake(observations)
            action: Tensor = self._algorithm.act(observed)
            # Stored at once, so an environment may reuse its buffers; rewards and ends follow in ``update``.
            self._algorithm.process_env_step(observed, self._later, self._later, {})
        return action.to(self._env_device)

    def record(self, result: StepResult) -> None:
        """Keep reward, ends and final observations of the step that followed the last ``act``."""
        self._rewards.record(self._algorithm.storage.step - 1, result)

    def update(self, observations: Observations) -> dict[str, float]:
        """Learn from the full rollout; returns losses, learning rate and mean action deviation.

        Raises:
            ConfigurationError: The rollout is not full.
        """
        algorithm = self._algorithm
        storage = algorithm.storage
        if storage.step != self.rollout_steps:
            raise ConfigurationError(f"update() after {storage.step} steps: a rollout has {self.rollout_steps}")
        with torch.no_grad():
            reward, ended = self._rewards.settle(self._value, self._settings.gamma, self._device)
            storage.rewards.copy_(reward.unsqueeze(2))
            storage.dones.copy_(ended.unsqueeze(2))
            algorithm.compute_returns(self._intake(observations))
        losses: dict[str, float] = algorithm.update()
        metrics = {f"loss/{name}": float(value) for name, value in losses.items()}
        metrics["learning_rate"] = float(algorithm.learning_rate)
        metrics["action_std"] = float(algorithm.actor.distribution.std_param.detach().clamp(min=1e-6).mean())
        return metrics

    def _value(self, observed: Tensor) -> Tensor:
        rows = TensorDict({self._plan.critic_group: observed}, batch_size=[len(observed)])
        value: Tensor = self._algorithm.critic(rows)
        return value.squeeze(1)

    def policy(self) -> Policy:
        """Return the deterministic policy with the present weights."""
        return snapshot_policy(self._algorithm.actor, self._device)

    def state_dict(self) -> Payload:
        """Return networks, optimiser, learning rate and the state of the generators."""
        algorithm = self._algorithm
        moments = algorithm.optimizer.state_dict()["state"]
        return {
            "format": FORMAT,
            "kind": KIND,
            "network": self._plan.plain(),
            "actor": _copies(algorithm.actor.state_dict()),
            "critic": _copies(algorithm.critic.state_dict()),
            "optimizer": {str(index): _copies(values) for index, values in moments.items()},
            "learning_rate": float(algorithm.learning_rate),
            "random": _random_state(self._device),
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from ``state``. Raises DataError saying what differs where it does not fit.

        Beyond rank 0 the generators go on as they are: one saved state would give all ranks the same noise.
        """
        self._plan.check(NetworkPlan.saved_in(state))
        rate = state.get("learning_rate")
        if not isinstance(rate, float) or not 0.0 < rate < math.inf:
            raise DataError(f"the checkpoint's learning_rate is {rate}, not a number above 0")
        load_weights(self._algorithm.actor, state, "actor")
        load_weights(self._algorithm.critic, state, "critic")
        self._load_optimizer(table(state, "optimizer"), rate)
        if self.rank == 0:
            _restore_random(table(state, "random"), self._device)

    def _load_optimizer(self, saved: Mapping[str, object], rate: float) -> None:
        optimizer = self._algorithm.optimizer
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        moments: dict[int, dict[str, Tensor]] = {}
        # Before the first update there are no moments at all.
        for index, parameter in enumerate(parameters if saved else ()):
            entry = {k: v for k, v in table(saved, str(index)).items() if isinstance(v, Tensor)}
            kinds = {(v.shape, v.dtype) for k, v in entry.items() if k != "step"}
            if entry.keys() != {"step", "exp_avg", "exp_avg_sq"} or kinds != {(parameter.shape, parameter.dtype)}:
                raise DataError(f"the checkpoint's optimizer.{index} does not fit {tuple(parameter.shape)}")
            moments[index] = entry
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": groups})
        for group in optimizer.param_groups:
            group["lr"] = rate
        self._algorithm.learning_rate = rate


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def _restore_random(saved: Mapping[str, object], device: torch.device) -> None:
    """Set the generators that the checkpoint knows; one saved on another kind of device goes on as seeded."""
    states = {name: value.cpu() for name, value in saved.items() if isinstance(value, Tensor)}
    try:
        if "cpu" in states:
            torch.set_rng_state(states["cpu"])
        if "cuda" in states and device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
        if "mps" in states and device.type == "mps":
            torch.mps.set_rng_state(states["mps"])
    except (RuntimeError, TypeError) as error:
        raise DataError(f"the checkpoint's generator state is damaged: {error}") from error
