"""The two networks of PPO: what they are made of, how they are saved, and the policy they give."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict
from torch import Tensor, nn

from adapters.rsl_rl.gaussian import DeviceGaussian
from application.ports import Observations, Policy
from application.settings import PpoSettings
from domain.errors import ConfigurationError, DataError

FORMAT = 1
KIND = "ppo"
_ACTIVATIONS = {"elu": "elu", "relu": "relu", "selu": "selu", "tanh": "tanh", "silu": "swish"}


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """Everything that decides the shape of actor and critic; saved beside their weights."""

    actor_observation: int
    critic_observation: int
    critic_group: str
    action: int
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: str
    obs_normalization: bool

    @classmethod
    def of(cls, settings: PpoSettings, observations: Observations, action_dim: int) -> "NetworkPlan":
        """Plan networks for an environment's observations; the critic falls back to the actor's group.

        Raises:
            ConfigurationError: There is no group called ``actor``.
        """
        if "actor" not in observations:
            raise ConfigurationError(
                f"PPO needs an observation group 'actor' (found: {', '.join(observations) or 'none'})"
            )
        critic_group = "critic" if "critic" in observations else "actor"
        return cls(
            actor_observation=observations["actor"].shape[1],
            critic_observation=observations[critic_group].shape[1],
            critic_group=critic_group,
            action=action_dim,
            actor_hidden=settings.actor_hidden,
            critic_hidden=settings.critic_hidden,
            activation=settings.activation,
            obs_normalization=settings.obs_normalization,
        )

    @classmethod
    def saved_in(cls, state: Mapping[str, object]) -> "NetworkPlan":
        """Read the plan of a saved learner. Raises DataError where it is not one of PPO's."""
        if state.get("kind") != KIND:
            raise DataError(
                f"the checkpoint was learnt by '{state.get('kind')}', not by '{KIND}': choose that algorithm"
            )
        if state.get("format") != FORMAT:
            raise DataError(f"the checkpoint has format {state.get('format')}, this version reads {FORMAT}")
        saved = table(state, "network")
        try:
            fields = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items()}
            return cls(**fields)  # type: ignore[arg-type]  # compared with a plan of the right types by ``check``
        except TypeError as error:
            raise DataError(f"the checkpoint's network entry is damaged: {error}") from error

    @property
    def groups(self) -> dict[str, int]:
        """Width of each observation group that is needed."""
        return {"actor": self.actor_observation, self.critic_group: self.critic_observation}

    def plain(self) -> dict[str, object]:
        """Return numbers, text and lists, for a checkpoint."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def check(self, saved: "NetworkPlan") -> None:
        """Raise DataError naming every difference from the networks of a checkpoint."""
        mine, theirs = self.plain(), saved.plain()
        different = [
            f"{name} is {theirs[name]} there and {mine[name]} here" for name in mine if mine[name] != theirs[name]
        ]
        if different:
            raise DataError(f"the checkpoint has other networks: {'; '.join(different)}")


def build_actor(plan: NetworkPlan, init_std: float) -> Any:
    """Return a new Gaussian actor, on the CPU."""
    gaussian = {"class_name": DeviceGaussian, "init_std": init_std}
    return _model(plan, "actor", "actor", plan.action, plan.actor_hidden, gaussian)


def build_critic(plan: NetworkPlan) -> Any:
    """Return a new critic, on the CPU."""
    return _model(plan, "critic", plan.critic_group, 1, plan.critic_hidden, None)


def _model(
    plan: NetworkPlan, role: str, group: str, outputs: int, hidden: tuple[int, ...], distribution: dict[str, Any] | None
) -> Any:
    example = TensorDict({name: torch.zeros(1, width) for name, width in plan.groups.items()}, batch_size=[1])
    activation = _ACTIVATIONS[plan.activation]
    return MLPModel(
        example, {role: [group]}, role, outputs, list(hidden), activation, plan.obs_normalization, distribution
    )


def snapshot_policy(actor: Any, device: torch.device) -> Policy:
    """Return the deterministic policy with the actor's present weights and normaliser; later training leaves it."""
    # The library's export form is a copy that takes a plain tensor.
    module: nn.Module = actor.as_jit().to(device).eval()

    def act(observations: Observations) -> Tensor:
        observed = observations["actor"]
        with torch.no_grad():
            action: Tensor = module(observed.to(device))
        return action.to(observed.device)

    return act


def load_policy(
    state: Mapping[str, object], observations: Observations, action_dim: int, *, device: torch.device
) -> Policy:
    """Build the deterministic policy of a saved learner, with its actor only.

    Args:
        state: What ``RslRlPpo.state_dict`` returned.
        observations: Of the environment to act in, as an example.
        action_dim: Of that environment.
        device: Where the network runs; observations and actions stay on the environment's device.

    Raises:
        DataError: Another algorithm, a damaged entry, or other widths than the environment's.
    """
    plan = NetworkPlan.saved_in(state)
    here = (observations["actor"].shape[1] if "actor" in observations else 0, action_dim)
    if (plan.actor_observation, plan.action) != here:
        raise DataError(
            f"the checkpoint maps {plan.actor_observation} observations to {plan.action} actions, "
            f"this environment has {here[0]} and {here[1]}"
        )
    actor = build_actor(plan, init_std=1.0)
    load_weights(actor, state, "actor")
    return snapshot_policy(actor, device)


def load_weights(module: nn.Module, state: Mapping[str, object], name: str) -> None:
    """Copy the saved tensors of a network into ``module``. Raises DataError where names or shapes differ."""
    tensors = {key: value for key, value in table(state, name).items() if isinstance(value, Tensor)}
    own = module.state_dict()
    wrong = sorted(key for key in own.keys() | tensors.keys() if shape_of(own, key) != shape_of(tensors, key))
    if wrong:
        key = wrong[0]
        raise DataError(f"the checkpoint's {name}.{key} is {shape_of(tensors, key)}, expected {shape_of(own, key)}")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise DataError(f"the checkpoint's {name} holds numbers that are not finite")
    module.load_state_dict(tensors)


def shape_of(tensors: Mapping[str, Tensor], name: str) -> str:
    """Say the shape of a named tensor, or that it is absent."""
    return f"of shape {tuple(tensors[name].shape)}" if name in tensors else "absent"


def table(state: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a nested mapping of a checkpoint. Raises DataError where there is none."""
    value = state.get(name)
    if not isinstance(value, Mapping):
        raise DataError(f"the checkpoint's entry '{name}' is missing or damaged")
    return value
