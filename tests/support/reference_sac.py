"""SAC in FastSAC form as equations: one cycle of updates in float64."""

import torch
from torch import Tensor

from domain.learning.config import SacCfg
from tests.support.reference_math import (
    Adam,
    Rows,
    State,
    cross_entropy,
    descend,
    guarded_log_density,
    layer_norm,
    log_softmax,
    mean_value,
    means,
    merge_cycle,
    normalize,
    normalize_rows,
    polyak,
    project,
    scale_and_shift,
    squash,
    support,
    with_leaves,
)

Bounds = tuple[Tensor, Tensor]


def sac_cycle(
    state: State, batch: Rows, noise: Tensor, bounds: Bounds, first_update: int, cfg: SacCfg
) -> tuple[State, State]:
    """Return the state after one cycle on ``batch`` (U, B, ...), and the mean losses of its steps.

    Args:
        state: Tensors by the names that the learner saves.
        batch: Raw observations, actions in the environment's units.
        noise: (U, 2, B, A): the sample at s', the sample at s.
        bounds: Lowest and highest actions, (A,) each.
        first_update: Updates of the run before this cycle.
        cfg: The learner's figures.
    """
    if cfg.obs_normalization:
        state = merge_cycle(state, batch)
    losses: dict[str, list[Tensor]] = {name: [] for name in ("critic_loss", "actor_loss", "alpha_loss")}
    for u in range(noise.shape[0]):
        rows = normalize_rows(state, batch.of(u)) if cfg.obs_normalization else batch.of(u)
        next_action, next_log_density = _sample(state, rows.next_obs, noise[u, 0], cfg, bounds)

        leaves = with_leaves(state, "critic")
        loss = _critic_loss(leaves, rows, next_action, next_log_density, cfg)
        state, learned = descend(state, leaves, "critic", loss, _adam(cfg, cfg.critic_lr))
        losses["critic_loss"].append(loss.detach())

        leaves = with_leaves(state, "alpha")
        entropy_target = -bounds[0].numel() * cfg.target_entropy_ratio
        loss = -leaves["log_alpha"].exp() * (next_log_density + entropy_target).mean()
        state, _ = descend(state, leaves, "alpha", loss, Adam(rate=cfg.alpha_lr, beta1=cfg.beta1, beta2=cfg.beta2))
        losses["alpha_loss"].append(loss.detach())

        if (first_update + u) % cfg.policy_frequency == 0:
            leaves = with_leaves(state, "actor")
            loss = _actor_loss(leaves, rows, noise[u, 1], cfg, bounds)
            state, _ = descend(state, leaves, "actor", loss, _adam(cfg, cfg.actor_lr))
            losses["actor_loss"].append(loss.detach())

        if learned:
            state = polyak(state, cfg.tau)
    return state, means(losses)


def sac_deterministic_action(state: State, obs: Tensor, bounds: Bounds, cfg: SacCfg) -> Tensor:
    """Return the action (rows, A) that acts without noise on raw observations."""
    scale, shift = scale_and_shift(bounds)
    mean, _ = _actor(state, normalize(obs, state, "actor") if cfg.obs_normalization else obs, cfg)
    return mean.tanh() * scale + shift


def _adam(cfg: SacCfg, rate: float) -> Adam:
    return Adam(rate=rate, beta1=cfg.beta1, beta2=cfg.beta2, decay=cfg.weight_decay, max_grad_norm=cfg.max_grad_norm)


def _actor(state: State, obs: Tensor, cfg: SacCfg) -> tuple[Tensor, Tensor]:
    """Return mean and log standard deviation (B, A) before the tanh."""
    x = obs
    for i in range(len(cfg.actor_hidden)):
        layer = f"actor/layers.{i}."
        x = x @ state[layer + "weight"].T + state[layer + "bias"]
        x = layer_norm(x, state[layer + "norm_weight"], state[layer + "norm_bias"])
        x = x * x.sigmoid()
    x = x @ state["actor/head.weight"].T + state["actor/head.bias"]
    actions = x.shape[1] // 2
    return x[:, :actions], squash(x[:, actions:], cfg.log_std_min, cfg.log_std_max)


def _sample(state: State, obs: Tensor, noise: Tensor, cfg: SacCfg, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """Return an action (B, A) in the environment's units and its log-density (B,)."""
    scale, shift = scale_and_shift(bounds)
    mean, log_std = _actor(state, obs, cfg)
    u = mean + log_std.exp() * noise
    return u.tanh() * scale + shift, guarded_log_density(u, log_std, noise, scale)


def _logits(state: State, net: str, critic: int, x: Tensor, cfg: SacCfg) -> Tensor:
    """Return the logits (B, K) of one critic of ``net`` (critic or target)."""

    def part(name: str) -> Tensor:
        return state[f"{net}/{name}"][critic]

    for i in range(len(cfg.critic_hidden)):
        x = x @ part(f"layers.{i}.weight").T + part(f"layers.{i}.bias")
        x = layer_norm(x, part(f"layers.{i}.norm_weight"), part(f"layers.{i}.norm_bias"))
        x = x * x.sigmoid()
    return x @ part("head.weight").T + part("head.bias")


def _critic_loss(state: State, rows: Rows, next_action: Tensor, next_log_density: Tensor, cfg: SacCfg) -> Tensor:
    atoms = support(cfg.v_min, cfg.v_max, cfg.atoms)
    shift = state["log_alpha"].exp() * next_log_density
    here = torch.cat([rows.critic_obs, rows.action], dim=1)
    there = torch.cat([rows.next_critic_obs, next_action], dim=1)
    loss = torch.zeros((), dtype=torch.float64)
    for critic in range(2):
        next_probabilities = log_softmax(_logits(state, "target", critic, there, cfg)).exp()
        wanted = project(next_probabilities, rows.reward, rows.discount, shift, atoms)
        loss = loss + cross_entropy(wanted, _logits(state, "critic", critic, here, cfg)).mean()
    return loss


def _actor_loss(state: State, rows: Rows, noise: Tensor, cfg: SacCfg, bounds: Bounds) -> Tensor:
    atoms = support(cfg.v_min, cfg.v_max, cfg.atoms)
    action, log_density = _sample(state, rows.obs, noise, cfg, bounds)
    x = torch.cat([rows.critic_obs, action], dim=1)
    first, second = (mean_value(_logits(state, "critic", critic, x, cfg), atoms) for critic in range(2))
    return (state["log_alpha"].exp() * log_density - (first + second) / 2).mean()
