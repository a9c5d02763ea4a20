"""FlashSAC as equations: one cycle of updates in float64."""

import math

import torch
from torch import Tensor

from domain.learning.config import FlashSacCfg
from tests.support.reference_branches import of_smaller, relu
from tests.support.reference_math import (
    Adam,
    Rows,
    State,
    batch_norm,
    cosine_rate,
    cross_entropy,
    descend,
    log_softmax,
    mean_value,
    means,
    polyak,
    project,
    rms_norm,
    scale_and_shift,
    squash,
    stable_log_density,
    support,
    trainable,
    unit_batch_norm_factor,
    unit_rows,
    with_leaves,
)

Bounds = tuple[Tensor, Tensor]


def flashsac_cycle(
    state: State, batch: Rows, noise: Tensor, bounds: Bounds, first_update: int, cfg: FlashSacCfg
) -> tuple[State, State]:
    """Return the state after one cycle on ``batch`` (U, B, ...), and the mean losses of its steps.

    Args:
        state: Tensors by the names that the learner saves.
        batch: Raw observations, actions in the environment's units, rewards after scaling.
        noise: (U, 2, B, A): the sample at s', the sample at s.
        bounds: Lowest and highest actions, (A,) each.
        first_update: Updates of the run before this cycle.
        cfg: The learner's figures.
    """
    losses: dict[str, list[Tensor]] = {name: [] for name in ("critic_loss", "actor_loss", "alpha_loss")}
    for u in range(noise.shape[0]):
        rows, acts, learned = batch.of(u), (first_update + u) % cfg.policy_frequency == 0, False
        for part in ("actor", "critic") if cfg.policy_before_critic else ("critic", "actor"):
            if part == "critic":
                state, loss, learned = _learn_critic(state, rows, noise[u, 0], cfg, bounds)
                losses["critic_loss"].append(loss)
            elif acts:
                state, loss, alpha_loss = _learn_actor(state, rows, noise[u, 1], cfg, bounds)
                losses["actor_loss"].append(loss)
                losses["alpha_loss"].append(alpha_loss)
        if learned:
            state = polyak(state, cfg.tau)
    return state, means(losses)


def flashsac_deterministic_action(state: State, obs: Tensor, bounds: Bounds, cfg: FlashSacCfg) -> Tensor:
    """Return the action (rows, A) that acts without noise on raw observations."""
    scale, shift = scale_and_shift(bounds)
    features, _ = _trunk(state, "actor", None, obs, batch=False, blocks=cfg.blocks)
    mean, _ = _policy(state, features, cfg)
    return mean.tanh() * scale + shift


def unit_norms(state: State, part: str) -> State:
    """Bring the weights of ``part`` back to the lengths that they keep after every step."""
    new = dict(state)
    for name in trainable(state, part):
        weight = state[name]
        if name.endswith("out_norm.weight"):
            new[name] = weight * math.sqrt(weight.shape[-1]) / weight.square().sum(dim=-1, keepdim=True).sqrt()
        elif name.endswith("norm.weight"):
            bias = name.removesuffix("weight") + "bias"
            factor = unit_batch_norm_factor(weight, state[bias]).unsqueeze(-1)
            new[name], new[bias] = weight * factor, state[bias] * factor
        elif name.endswith("weight"):
            new[name] = unit_rows(weight)
    return new


def _trunk(state: State, net: str, critic: int | None, x: Tensor, *, batch: bool, blocks: int) -> tuple[Tensor, State]:
    """Return the features (B, h) before the head, and the running statistics after this pass, by full name.

    The actor has no ensemble, so its ``critic`` is None; the statistics of a critic lack the leading dimension.
    """
    moved: State = {}

    def read(name: str) -> Tensor:
        tensor = state[f"{net}/{name}"]
        return tensor if critic is None else tensor[critic]

    def norm(layer: str, rows: Tensor) -> Tensor:
        out, statistics = batch_norm(rows, lambda name: read(f"{layer}.{name}"), batch=batch)
        moved.update({f"{net}/{layer}.{name}": value for name, value in statistics.items()})
        return out

    x = norm("norm", x) @ read("embed.weight").T
    for j in range(blocks):
        y = relu(norm(f"blocks.{j}.expand_norm", x @ read(f"blocks.{j}.expand.weight").T))
        y = relu(norm(f"blocks.{j}.contract_norm", y @ read(f"blocks.{j}.contract.weight").T))
        x = x + y
    return rms_norm(x, read("out_norm.weight")), moved


def _policy(state: State, features: Tensor, cfg: FlashSacCfg) -> tuple[Tensor, Tensor]:
    """Return mean and log standard deviation (B, A) before the tanh."""
    x = features @ state["actor/head.weight"].T + state["actor/head.bias"]
    actions = x.shape[1] // 2
    return x[:, :actions], squash(x[:, actions:], cfg.log_std_min, cfg.log_std_max)


def _sample(state: State, features: Tensor, noise: Tensor, cfg: FlashSacCfg, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """Return an action (B, A) in the environment's units and its log-density (B,)."""
    scale, shift = scale_and_shift(bounds)
    mean, log_std = _policy(state, features, cfg)
    u = mean + log_std.exp() * noise
    return u.tanh() * scale + shift, stable_log_density(u, log_std, noise, scale)


def _both_logits(state: State, net: str, x: Tensor, *, batch: bool, blocks: int) -> tuple[list[Tensor], State]:
    """Return the logits (B, K) of the two critics of ``net``, and its running statistics after the pass."""
    logits, statistics = [], []
    for critic in range(2):
        features, moved = _trunk(state, net, critic, x, batch=batch, blocks=blocks)
        logits.append(features @ state[f"{net}/head.weight"][critic].T + state[f"{net}/head.bias"][critic])
        statistics.append(moved)
    return logits, {name: torch.stack([moved[name] for moved in statistics]) for name in statistics[0]}


def _learn_critic(
    state: State, rows: Rows, noise: Tensor, cfg: FlashSacCfg, bounds: Bounds
) -> tuple[State, Tensor, bool]:
    """Return the state, the loss, and whether the step was taken."""
    atoms, size = support(cfg.v_min, cfg.v_max, cfg.atoms), rows.reward.shape[0]
    features, _ = _trunk(state, "actor", None, rows.next_obs, batch=False, blocks=cfg.blocks)
    next_action, next_log_density = _sample(state, features, noise, cfg, bounds)
    here = torch.cat([rows.critic_obs, rows.action], dim=1)
    there = torch.cat([rows.next_critic_obs, next_action], dim=1)
    both = torch.cat([here, there])

    target_logits, target_moved = _both_logits(state, "target", both, batch=True, blocks=cfg.blocks)
    first, second = (logits[size:] for logits in target_logits)
    values = mean_value(first, atoms), mean_value(second, atoms)
    next_probabilities = log_softmax(of_smaller(values, (first, second))).exp()
    shift = state["log_alpha"].exp() * next_log_density
    wanted = project(next_probabilities, rows.reward, rows.discount, shift, atoms).detach()

    leaves = with_leaves(state, "critic")
    logits, moved = _both_logits(leaves, "critic", both, batch=True, blocks=cfg.blocks)
    first_loss, second_loss = (cross_entropy(wanted, one[:size]).mean() for one in logits)
    loss = (first_loss + second_loss) / 2
    state = {**state, **target_moved, **moved}
    state, learned = descend(state, leaves, "critic", loss, _adam(state, "critic", cfg))
    return unit_norms(state, "critic") if learned else state, loss.detach(), learned


def _learn_actor(
    state: State, rows: Rows, noise: Tensor, cfg: FlashSacCfg, bounds: Bounds
) -> tuple[State, Tensor, Tensor]:
    """Return the state, the actor's loss and the temperature's."""
    atoms, size, actions = support(cfg.v_min, cfg.v_max, cfg.atoms), rows.reward.shape[0], rows.action.shape[1]
    leaves = with_leaves(state, "actor")
    features, moved = _trunk(leaves, "actor", None, torch.cat([rows.obs, rows.next_obs]), batch=True, blocks=cfg.blocks)
    action, log_density = _sample(leaves, features[:size], noise, cfg, bounds)
    x = torch.cat([rows.critic_obs, action], dim=1)
    logits, _ = _both_logits(leaves, "critic", x, batch=False, blocks=cfg.blocks)
    values = mean_value(logits[0], atoms), mean_value(logits[1], atoms)
    loss = (state["log_alpha"].exp() * log_density - of_smaller(values, values)).mean()
    state, learned = descend({**state, **moved}, leaves, "actor", loss, _adam(state, "actor", cfg))
    state = unit_norms(state, "actor") if learned else state

    leaves = with_leaves(state, "alpha")
    wanted_entropy = 0.5 * actions * math.log(2 * math.pi * math.e * cfg.target_sigma**2)
    alpha_loss = leaves["log_alpha"].exp() * (-log_density.detach().mean() - wanted_entropy)
    state, _ = descend(state, leaves, "alpha", alpha_loss, _adam(state, "alpha", cfg))
    return state, loss.detach(), alpha_loss.detach()


def _adam(state: State, part: str, cfg: FlashSacCfg) -> Adam:
    """Each optimiser's rate follows its own steps; there is no weight decay."""
    rate = cosine_rate(float(state[f"{part}_optimizer/step"]), cfg.lr_init, cfg.lr_end, cfg.lr_horizon)
    clip = 0.0 if part == "alpha" else cfg.max_grad_norm
    return Adam(rate=rate, beta1=0.9, beta2=0.999, max_grad_norm=clip)
