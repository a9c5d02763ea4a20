"""Float64 pieces of an independent reference for the off-policy learners.

Written from equations alone, for clarity and not for speed: no scatter, no batched critics, no optimiser of Torch.
A state is a flat dictionary of tensors by the names that a learner saves; every function returns new tensors and
leaves its arguments alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

State = dict[str, Tensor]
Reader = Callable[[str], Tensor]  # a name below a part's prefix -> the tensor

ADAM_EPS = 1e-8
CLIP_EPS = 1e-6
LAYER_NORM_EPS = 1e-5
BATCH_NORM_EPS = 1e-5
BATCH_NORM_MOMENTUM = 0.01
UNIT_EPS = 1e-8
RMS_EPS = 1e-6
NORMALIZER_EPS = 0.01
GUARD = 1e-6
BUFFERS = ("running_mean", "running_var", "normalizer.", "bounds.")
NORMALIZERS = {"actor": "actor_normalizer/", "critic": "critic_normalizer/"}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a cycle (updates, rows, ...) or of one update (rows, ...), float64."""

    obs: Tensor
    critic_obs: Tensor
    action: Tensor
    next_obs: Tensor
    next_critic_obs: Tensor
    reward: Tensor
    discount: Tensor

    def of(self, update: int) -> "Rows":
        """Return the rows of one update."""
        return Rows(**{name: value[update] for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Adam:
    """What one optimiser step needs beside the gradient; ``decay`` is decoupled, ``max_grad_norm`` 0 clips nothing."""

    rate: float
    beta1: float
    beta2: float
    decay: float = 0.0
    max_grad_norm: float = 0.0


def trainable(state: Mapping[str, Tensor], part: str) -> list[str]:
    """Return the names of the parameters of ``part``: no running statistics."""
    if part == "alpha":
        return ["log_alpha"]
    return [name for name in state if name.startswith(f"{part}/") and not name.endswith(BUFFERS)]


def with_leaves(state: State, part: str) -> State:
    """Return ``state`` in which the parameters of ``part``, and no others, record gradients."""
    leaves = {name: state[name].detach().clone().requires_grad_() for name in trainable(state, part)}
    return {**{name: value.detach() for name, value in state.items()}, **leaves}


def descend(state: State, leaves: State, part: str, loss: Tensor, adam: Adam) -> tuple[State, bool]:
    """Take one Adam step on ``part``; a loss or gradient norm that is not finite changes nothing.

    Returns:
        The new state, and whether the step was taken.
    """
    names = trainable(state, part)
    gradients = dict(zip(names, torch.autograd.grad(loss, [leaves[name] for name in names]), strict=True))
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    if not (loss.isfinite() and norm.isfinite()):
        return state, False
    if adam.max_grad_norm > 0.0:
        factor = min(1.0, adam.max_grad_norm / (float(norm) + CLIP_EPS))
        gradients = {name: gradient * factor for name, gradient in gradients.items()}
    step = state[f"{part}_optimizer/step"] + 1
    new = {**state, f"{part}_optimizer/step": step}
    for name, gradient in gradients.items():
        first, second = (
            f"{part}_optimizer/{moment}/{name.removeprefix(f'{part}/')}" for moment in ("exp_avg", "exp_avg_sq")
        )
        new[first] = adam.beta1 * state[first] + (1 - adam.beta1) * gradient
        new[second] = adam.beta2 * state[second] + (1 - adam.beta2) * gradient**2
        unbiased = new[first] / (1 - adam.beta1**step)
        root = (new[second] / (1 - adam.beta2**step)).sqrt()
        new[name] = state[name] * (1 - adam.rate * adam.decay) - adam.rate * unbiased / (root + ADAM_EPS)
    return new, True


def polyak(state: State, tau: float) -> State:
    """Move the target's parameters, and no buffers, a part ``tau`` of the way to the critic's."""
    new = dict(state)
    for name in trainable(state, "target"):
        online = state["critic/" + name.removeprefix("target/")]
        new[name] = (1 - tau) * state[name] + tau * online
    return new


def cosine_rate(step: float, init: float, end: float, horizon: int) -> float:
    """Return the rate of the step that ``step`` steps came before."""
    return end + (init - end) / 2 * (1 + math.cos(math.pi * min(step / horizon, 1.0)))


def support(v_min: float, v_max: float, atoms: int) -> Tensor:
    """Return the atoms (K,), evenly spaced."""
    return torch.tensor([v_min + i * (v_max - v_min) / (atoms - 1) for i in range(atoms)], dtype=torch.float64)


def project(probabilities: Tensor, reward: Tensor, discount: Tensor, shift: Tensor, atoms: Tensor) -> Tensor:
    """Project the distribution (B, K) of ``reward + discount * (z - shift)`` back onto the atoms.

    An atom takes from a moved one the height of a triangle of half-width one spacing: every pair is weighed.
    """
    spacing = atoms[1] - atoms[0]
    moved = (reward[:, None] + discount[:, None] * (atoms - shift[:, None])).clamp(float(atoms[0]), float(atoms[-1]))
    height = (1 - (moved[:, :, None] - atoms).abs() / spacing).clamp(min=0)
    return (probabilities[:, :, None] * height).sum(dim=1)


def cross_entropy(wanted: Tensor, logits: Tensor) -> Tensor:
    """Return the cross-entropy (B,) of rows of logits (B, K)."""
    return -(wanted * log_softmax(logits)).sum(dim=1)


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probabilities over the last dimension."""
    return logits - logits.logsumexp(dim=-1, keepdim=True)


def mean_value(logits: Tensor, atoms: Tensor) -> Tensor:
    """Return the expected value (B,) of rows of logits (B, K)."""
    return (log_softmax(logits).exp() * atoms).sum(dim=-1)


def squash(raw: Tensor, low: float, high: float) -> Tensor:
    """Return the log standard deviation in (low, high)."""
    return low + 0.5 * (high - low) * (raw.tanh() + 1)


def guarded_log_density(u: Tensor, log_std: Tensor, noise: Tensor, scale: Tensor) -> Tensor:
    """Return log pi (B,) of ``tanh(u) * scale + d``, with SAC's guards of 1e-6."""
    gauss = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    return (gauss - (1 - u.tanh() ** 2 + GUARD).log() - (scale + GUARD).log()).sum(dim=-1)


def stable_log_density(u: Tensor, log_std: Tensor, noise: Tensor, scale: Tensor) -> Tensor:
    """Return log pi (B,) of ``tanh(u) * scale + d``: log(1 - tanh^2) = 2 (log 2 - u - log(1 + exp(-2u)))."""
    gauss = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    log_one_plus = torch.logaddexp(torch.zeros_like(u), -2 * u)
    return (gauss - 2 * (math.log(2) - u - log_one_plus) - scale.log()).sum(dim=-1)


def scale_and_shift(bounds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return half the width and the middle of the action bounds (low, high)."""
    low, high = bounds
    return (high - low) / 2, (high + low) / 2


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalise rows over their features."""
    centred = x - x.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    return centred / (variance + LAYER_NORM_EPS).sqrt() * weight + bias


def batch_norm(x: Tensor, read: Reader, *, batch: bool) -> tuple[Tensor, State]:
    """Normalise features over rows, by the statistics of these rows or by the running ones.

    Returns:
        The rows, and the running statistics after them (names without prefix; empty with running statistics).
    """
    mean, variance = read("running_mean"), read("running_var")
    moved: State = {}
    if batch:
        rows, keep = x.shape[0], 1 - BATCH_NORM_MOMENTUM
        batch_mean = x.mean(dim=0)
        squares = (x - batch_mean).square().sum(dim=0)
        moved["running_mean"] = (keep * mean + BATCH_NORM_MOMENTUM * batch_mean).detach()
        moved["running_var"] = (keep * variance + BATCH_NORM_MOMENTUM * squares / (rows - 1)).detach()
        mean, variance = batch_mean, squares / rows
    return (x - mean) / (variance + BATCH_NORM_EPS).sqrt() * read("weight") + read("bias"), moved


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Divide rows by their root mean square."""
    return x / (x.square().mean(dim=1, keepdim=True) + RMS_EPS).sqrt() * weight


def unit_rows(weight: Tensor) -> Tensor:
    """Divide each output row (..., o, in) by its length."""
    return weight / weight.square().sum(dim=-1, keepdim=True).sqrt().clamp(min=UNIT_EPS)


def unit_batch_norm_factor(weight: Tensor, bias: Tensor) -> Tensor:
    """Return the factor (...,) that gives weight and bias (..., d) together the length sqrt(d)."""
    return (weight.shape[-1] / (weight.square().sum(dim=-1) + bias.square().sum(dim=-1) + UNIT_EPS)).sqrt()


def normalize(x: Tensor, state: State, part: str) -> Tensor:
    """Normalise observations by the running statistics of ``part``."""
    name = f"{part}_normalizer/"
    return (x - state[name + "mean"]) / (state[name + "var"].sqrt() + NORMALIZER_EPS)


def merge_normalizer(state: State, part: str, rows: Tensor) -> State:
    """Merge the statistics of ``rows`` (n, features) into the normaliser of ``part``."""
    name = f"{part}_normalizer/"
    mean, variance, count = state[name + "mean"], state[name + "var"], state[name + "count"]
    size, batch_mean = rows.shape[0], rows.mean(dim=0)
    total, offset = count + size, batch_mean - mean
    squares = variance * count + (rows - batch_mean).square().sum(dim=0) + offset**2 * count * size / total
    merged = {name + "mean": mean + offset * size / total, name + "var": squares / total, name + "count": total}
    return {**state, **merged}


def merge_cycle(state: State, batch: Rows) -> State:
    """Merge all rows of a cycle, at s and at s', into the actor's and the critics' normaliser."""
    for part, here, there in (
        ("actor", batch.obs, batch.next_obs),
        ("critic", batch.critic_obs, batch.next_critic_obs),
    ):
        state = merge_normalizer(state, part, torch.cat([here.flatten(0, 1), there.flatten(0, 1)]))
    return state


def normalize_rows(state: State, rows: Rows) -> Rows:
    """Return the rows with both groups of observations normalised, at s and at s'."""
    return replace(
        rows,
        obs=normalize(rows.obs, state, "actor"),
        next_obs=normalize(rows.next_obs, state, "actor"),
        critic_obs=normalize(rows.critic_obs, state, "critic"),
        next_critic_obs=normalize(rows.next_critic_obs, state, "critic"),
    )


def means(losses: Mapping[str, list[Tensor]]) -> State:
    """Return each loss's mean over its steps."""
    return {name: torch.stack(values).mean() for name, values in losses.items()}
