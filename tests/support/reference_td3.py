"""TD3 in FastTD3 form as equations: one cycle of updates in float64."""

import torch
from torch import Tensor

from domain.learning.config import Td3Cfg
from tests.support.reference_branches import of_smaller, relu
from tests.support.reference_math import (
    Adam,
    Rows,
    State,
    cross_entropy,
    descend,
    log_softmax,
    mean_value,
    means,
    merge_cycle,
    normalize,
    normalize_rows,
    polyak,
    project,
    scale_and_shift,
    support,
    with_leaves,
)

Bounds = tuple[Tensor, Tensor]


def td3_cycle(
    state: State, batch: Rows, noise: Tensor, bounds: Bounds, first_update: int, cfg: Td3Cfg
) -> tuple[State, State]:
    """Return the state after one cycle on ``batch`` (U, B, ...), and the mean losses of its steps.

    Args:
        state: Tensors by the names that the learner saves.
        batch: Raw observations, actions in the environment's units.
        noise: (U, 1, B, A): what smooths the action at s'.
        bounds: Lowest and highest actions, (A,) each.
        first_update: Updates of the run before this cycle.
        cfg: The learner's figures.
    """
    if cfg.obs_normalization:
        state = merge_cycle(state, batch)
    losses: dict[str, list[Tensor]] = {name: [] for name in ("critic_loss", "actor_loss")}
    for u in range(noise.shape[0]):
        rows = normalize_rows(state, batch.of(u)) if cfg.obs_normalization else batch.of(u)

        leaves = with_leaves(state, "critic")
        loss = _critic_loss(leaves, rows, _smoothed_action(state, rows, noise[u, 0], cfg, bounds), cfg)
        state, learned = descend(state, leaves, "critic", loss, _adam(cfg, cfg.critic_lr))
        losses["critic_loss"].append(loss.detach())

        if (first_update + u) % cfg.policy_frequency == 0:
            leaves = with_leaves(state, "actor")
            loss = _actor_loss(leaves, rows, cfg, bounds)
            state, _ = descend(state, leaves, "actor", loss, _adam(cfg, cfg.actor_lr))
            losses["actor_loss"].append(loss.detach())

        if learned:
            state = polyak(state, cfg.tau)
    return state, means(losses)


def td3_deterministic_action(state: State, obs: Tensor, bounds: Bounds, cfg: Td3Cfg) -> Tensor:
    """Return the action (rows, A) that acts without noise on raw observations."""
    scale, shift = scale_and_shift(bounds)
    return _unit_action(state, normalize(obs, state, "actor") if cfg.obs_normalization else obs, cfg) * scale + shift


def _adam(cfg: Td3Cfg, rate: float) -> Adam:
    return Adam(rate=rate, beta1=0.9, beta2=0.999, decay=cfg.weight_decay, max_grad_norm=cfg.max_grad_norm)


def _unit_action(state: State, obs: Tensor, cfg: Td3Cfg) -> Tensor:
    """Return the action (B, A) in (-1, 1)."""
    x = obs
    for i in range(len(cfg.actor_hidden)):
        x = relu(x @ state[f"actor/layers.{i}.weight"].T + state[f"actor/layers.{i}.bias"])
    return (x @ state["actor/head.weight"].T + state["actor/head.bias"]).tanh()


def _smoothed_action(state: State, rows: Rows, noise: Tensor, cfg: Td3Cfg, bounds: Bounds) -> Tensor:
    """Return the action (B, A) at s', in the environment's units."""
    scale, shift = scale_and_shift(bounds)
    disturbance = (cfg.policy_noise * noise).clamp(-cfg.noise_clip, cfg.noise_clip)
    return (_unit_action(state, rows.next_obs, cfg) + disturbance).clamp(-1, 1) * scale + shift


def _logits(state: State, net: str, critic: int, x: Tensor, cfg: Td3Cfg) -> Tensor:
    """Return the logits (B, K) of one critic of ``net`` (critic or target)."""

    def part(name: str) -> Tensor:
        return state[f"{net}/{name}"][critic]

    for i in range(len(cfg.critic_hidden)):
        x = relu(x @ part(f"layers.{i}.weight").T + part(f"layers.{i}.bias"))
    return x @ part("head.weight").T + part("head.bias")


def _critic_loss(state: State, rows: Rows, next_action: Tensor, cfg: Td3Cfg) -> Tensor:
    atoms = support(cfg.v_min, cfg.v_max, cfg.atoms)
    here = torch.cat([rows.critic_obs, rows.action], dim=1)
    there = torch.cat([rows.next_critic_obs, next_action], dim=1)
    wanted = []
    for critic in range(2):
        next_probabilities = log_softmax(_logits(state, "target", critic, there, cfg)).exp()
        wanted.append(project(next_probabilities, rows.reward, rows.discount, torch.zeros_like(rows.reward), atoms))
    if cfg.clipped_double_q:
        first, second = wanted
        wanted = [of_smaller((first @ atoms, second @ atoms), (first, second))] * 2
    losses = [cross_entropy(wanted[critic], _logits(state, "critic", critic, here, cfg)).mean() for critic in range(2)]
    return losses[0] + losses[1]


def _actor_loss(state: State, rows: Rows, cfg: Td3Cfg, bounds: Bounds) -> Tensor:
    atoms = support(cfg.v_min, cfg.v_max, cfg.atoms)
    scale, shift = scale_and_shift(bounds)
    x = torch.cat([rows.critic_obs, _unit_action(state, rows.obs, cfg) * scale + shift], dim=1)
    first, second = (mean_value(_logits(state, "critic", critic, x, cfg), atoms) for critic in range(2))
    value = of_smaller((first, second), (first, second)) if cfg.clipped_double_q else (first + second) / 2
    return -value.mean()
