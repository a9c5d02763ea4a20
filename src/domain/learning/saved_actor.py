"""The actor of a saved learner alone: what plays a policy needs neither critics nor replay, and any device will do."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from domain.errors import DataError
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg
from domain.learning.flashsac import FlashSacActor
from domain.learning.network import Network
from domain.learning.payload import check_kind, fitting, table
from domain.learning.policy import ActionBounds
from domain.learning.running_moments import ObservationNormalizer
from domain.learning.sac import SacActor
from domain.learning.td3 import Td3Actor

Actor = SacActor | Td3Actor | FlashSacActor


def saved_policy(
    cfg: SacCfg | Td3Cfg | FlashSacCfg,
    state: Mapping[str, object],
    observations: Mapping[str, Tensor],
    actions: int,
    device: torch.device,
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Return what maps observation groups, (rows, width), to the deterministic action, (rows, actions), in env units.

    Args:
        cfg: Of the learner that was saved.
        state: What its ``state_dict`` returned, for any number of environments.
        observations: Of the environment to act in, as an example; group ``actor`` is read.
        actions: Columns of that environment's action.
        device: Where the network runs; observations and actions stay on the environment's device.

    Raises:
        DataError: Another algorithm, a damaged entry, or other widths than the environment's or the settings'.
    """
    check_kind(state, cfg.kind)
    shape = table(state, "shape")
    here = (observations["actor"].shape[1] if "actor" in observations else 0, actions)
    if (shape.get("obs"), shape.get("action")) != here:
        raise DataError(
            f"the checkpoint maps {shape.get('obs')} observations to {shape.get('action')} actions, "
            f"this environment has {here[0]} and {here[1]}"
        )
    actor = _actor(cfg, here[0], _bounds(shape, actions)).to(device)
    # In one block, as in the learner: a product may round by where its matrix lies.
    Network(actor.net, torch.float32)
    _load(actor, table(state, "tensors"))

    def act(observations: Mapping[str, Tensor]) -> Tensor:
        observed = observations["actor"]
        with torch.no_grad():
            action: Tensor = actor(observed.to(device))
        return action.to(observed.device)

    return act


def _actor(cfg: SacCfg | Td3Cfg | FlashSacCfg, obs: int, bounds: ActionBounds) -> Actor:
    unused = torch.Generator()
    if isinstance(cfg, SacCfg):
        return SacActor(cfg, obs, bounds, unused)
    if isinstance(cfg, Td3Cfg):
        return Td3Actor(cfg, obs, bounds, unused)
    return FlashSacActor(cfg, obs, bounds, unused)


def _bounds(shape: Mapping[str, object], actions: int) -> ActionBounds:
    """Return the bounds that the actor learnt with."""
    low, high = _numbers(shape, "action_low", actions), _numbers(shape, "action_high", actions)
    if not all(bottom < top for bottom, top in zip(low, high, strict=True)):
        raise DataError(f"the checkpoint's actions go from {list(low)} to {list(high)}: it is damaged")
    return ActionBounds(low, high)


def _numbers(shape: Mapping[str, object], name: str, count: int) -> tuple[float, ...]:
    value = shape.get(name)
    numbers = [n for n in value if isinstance(n, int | float) and math.isfinite(n)] if isinstance(value, list) else []
    if not isinstance(value, list) or not len(numbers) == len(value) == count:
        raise DataError(f"the checkpoint's entry 'shape.{name}' is {value}, not {count} finite numbers")
    return tuple(numbers)


def _load(actor: Actor, tensors: Mapping[str, object]) -> None:
    parts: dict[str, nn.Module] = {"actor": actor.net}
    if not isinstance(actor, FlashSacActor) and isinstance(actor.normalizer, ObservationNormalizer):
        parts["actor_normalizer"] = actor.normalizer
    own = {f"{part}/{name}": t for part, module in parts.items() for name, t in module.state_dict().items()}
    named = ("actor/", "actor_normalizer/")
    saved = {name: tensor for name, tensor in tensors.items() if str(name).startswith(named)}
    fits = fitting(saved, own)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(fits[name])
