"""Settings of the off-policy learners. Each checks itself before anything is allocated.

Defaults are the public owner's: ``unilab`` 1.5.2 for SAC and FlashSAC; for TD3, which 1.5.2 no longer has, the public
``unilab`` sources of 2026-05-31. What a default rests on besides is said at its class.
"""

import math
import typing
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal

from domain.errors import ConfigurationError, unknown_name


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a number, or each number of a tuple, may be. An infinite end is never inside, so nothing passes as one."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    fix: str
    """What to do about another value."""

    def check(self, number: float, path: str) -> None:
        """Raise ConfigurationError for a number outside, and for one that is not finite."""
        open_low, open_high = self.open_low or self.low == -math.inf, self.open_high or self.high == math.inf
        above = number > self.low if open_low else number >= self.low
        below = number < self.high if open_high else number <= self.high
        if not (above and below):
            interval = f"{'(' if open_low else '['}{self.low}, {self.high}{')' if open_high else ']'}"
            raise ConfigurationError(f"{path} is {number}, outside {interval}: {self.fix}")


Count = Annotated[int, Limits(low=1, fix="give at least 1")]
Finite = Annotated[float, Limits(fix="give a finite number")]
Positive = Annotated[float, Limits(low=0, open_low=True, fix="give a finite number above 0")]
NonNegative = Annotated[float, Limits(low=0, fix="give 0 for none, or a finite number above it")]
Rate = Annotated[float, Limits(low=0, open_low=True, fix="give a learning rate such as 3e-4")]
Decay = Annotated[
    float, Limits(low=0, high=1, open_low=True, open_high=True, fix="give the share that a moment keeps, such as 0.9")
]
Discount = Annotated[float, Limits(low=0, high=1, open_low=True, fix="give the discount of a control step, e.g. 0.99")]
Share = Annotated[
    float, Limits(low=0, high=1, open_low=True, fix="give the share that the target moves an update, e.g. 0.05")
]
Atoms = Annotated[int, Limits(low=2, fix="a distribution needs an atom at each end, 101 is usual")]
Widths = Annotated[tuple[int, ...], Limits(low=1, fix="give each hidden layer at least 1 unit")]

_SIGMA_MIN, _SIGMA_MAX = math.exp(-1.6), math.exp(-0.22)


@dataclass(frozen=True, kw_only=True)
class OffPolicyCfg:
    """What all off-policy learners have in common.

    A cycle is one environment step of all N environments and the updates after it; with N the reuse of a row is
    ``updates_per_step * batch_size / N``.

    Raises:
        ConfigurationError: A value that cannot work; names it as ``kind.field``.
    """

    kind: ClassVar[str]

    batch_size: Count
    """Rows that one update draws."""
    updates_per_step: Count
    """Critic updates in a cycle."""
    policy_frequency: Count
    """The actor learns in every how-many-th critic update, counted over the run."""
    gamma: Discount
    """Of one control step; not scaled by its length."""
    tau: Share
    """Of the way to the critic that its target moves in an update."""
    n_step: Count = 1
    """Rewards that are summed before the target critic is asked; 1 in all public owners."""
    replay_rows: Count
    """Rows that the replay keeps, of all environments together."""
    learning_start_rows: Count
    """Rows in the replay before the first update. The public owners count env steps instead: S of them are
    max(batch size, S * N) rows."""
    max_grad_norm: NonNegative = 0.0
    """L2 norm over all parameters of an optimiser to which its gradient is clipped; 0 clips nothing."""
    atoms: Atoms
    """Values that a critic's return distribution has mass on."""
    v_min: Finite
    """Lowest of them, in units of the discounted return (after scaling, where rewards are scaled)."""
    v_max: Finite
    """Highest of them."""
    obs_normalization: bool = False
    """Whether actor and critics see observations less their running mean, over their running deviation."""

    def __post_init__(self) -> None:
        _check_fields(self, self.kind)
        _check_order(self, self.kind, "batch_size", "replay_rows", fix="lower it, or keep more rows")
        _check_order(self, self.kind, "learning_start_rows", "replay_rows", fix="learning would never start, lower it")
        _check_order(self, self.kind, "v_min", "v_max", fix="give the lower end first", equal=False)


@dataclass(frozen=True, kw_only=True)
class SacCfg(OffPolicyCfg):
    """SAC in FastSAC form (arXiv 2512.01996); AdamW at constant rates.

    Defaults: ``unilab`` 1.5.2, SAC configuration. It leaves open, and its learner sets: the bounds of returns, the
    moments' decays, the weight decay and the bounds of the log standard deviation, all equal to FastSAC's; the layer
    widths, given there by their first. ``replay_rows`` is its 512 steps of 4096 environments, ``learning_start_rows``
    its 1 step, less than a batch. The temperature has no weight decay.
    """

    kind: ClassVar[str] = "sac"

    batch_size: Count = 8192
    updates_per_step: Count = 4
    policy_frequency: Count = 4
    gamma: Discount = 0.97
    tau: Share = 0.125
    replay_rows: Count = 512 * 4096
    learning_start_rows: Count = 8192
    atoms: Atoms = 101
    v_min: Finite = -20.0
    v_max: Finite = 20.0
    actor_hidden: Widths = (512, 256, 128)
    """Units of each hidden layer."""
    critic_hidden: Widths = (768, 384, 192)
    """Units of each hidden layer, in each of the two critics."""
    actor_lr: Rate = 3e-4
    critic_lr: Rate = 3e-4
    alpha_lr: Rate = 3e-4
    """Of the temperature's logarithm."""
    beta1: Decay = 0.9
    """Of the gradient's running mean in AdamW, an update."""
    beta2: Decay = 0.95
    """Of the squared gradient's."""
    weight_decay: NonNegative = 1e-3
    """Of actor and critics; a step shrinks a weight by rate * weight_decay of itself."""
    alpha_init: Positive = 0.01
    """Temperature at the start, in units of return per nat."""
    target_entropy_ratio: Finite = 0.0
    """Target entropy is -ratio nats for each action."""
    log_std_min: Finite = -5.0
    """Lowest natural logarithm of the policy's standard deviation, before tanh."""
    log_std_max: Finite = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_order(self, self.kind, "log_std_min", "log_std_max", fix="give the lower end first", equal=False)


@dataclass(frozen=True, kw_only=True)
class Td3Cfg(OffPolicyCfg):
    """TD3 in FastTD3 form (arXiv 2505.22642); AdamW at constant rates, decays 0.9 and 0.999.

    Defaults: public ``unilab`` sources of 2026-05-31, TD3 configuration, which gives the exploration's ends as
    logarithms, -1.6 and -0.22, and clips at 10 by its learner. ``replay_rows`` is its 1000 steps of 4096 environments,
    ``learning_start_rows`` its 1 step, less than a batch. All noise is in units of an action in [-1, 1].
    """

    kind: ClassVar[str] = "td3"

    batch_size: Count = 8192
    updates_per_step: Count = 4
    policy_frequency: Count = 2
    gamma: Discount = 0.97
    tau: Share = 0.1
    replay_rows: Count = 1000 * 4096
    learning_start_rows: Count = 8192
    max_grad_norm: NonNegative = 10.0
    atoms: Atoms = 101
    v_min: Finite = -10.0
    v_max: Finite = 10.0
    obs_normalization: bool = True
    actor_hidden: Widths = (512, 256, 128)
    """Units of each hidden layer."""
    critic_hidden: Widths = (1024, 512, 256)
    """Units of each hidden layer, in each of the two critics."""
    actor_lr: Rate = 3e-4
    critic_lr: Rate = 3e-4
    weight_decay: NonNegative = 0.1
    """Of both; a step shrinks a weight by rate * weight_decay of itself."""
    sigma_min: NonNegative = _SIGMA_MIN
    """Lower end of the exploration's deviation, drawn evenly for each environment and episode."""
    sigma_max: NonNegative = _SIGMA_MAX
    policy_noise: NonNegative = 0.2
    """Deviation of the noise on the target's next action."""
    noise_clip: NonNegative = 0.5
    """Greatest size of that noise."""
    clipped_double_q: bool = True
    """Whether both critics learn from the one with the lower target, and the actor from the lower value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_order(self, self.kind, "sigma_min", "sigma_max", fix="give the lower end first")


@dataclass(frozen=True, kw_only=True)
class FlashSacCfg(OffPolicyCfg):
    """FlashSAC (arXiv 2604.04539); Adam without weight decay, decays 0.9 and 0.999, rates that fall by half a cosine.

    Defaults: ``unilab`` 1.5.2, FlashSAC configuration, where ``max_return`` is ``normalized_g_max``; the expansion and
    the bounds of the log standard deviation are the authors' code's. ``replay_rows`` is its 512 steps of 1024
    environments, ``learning_start_rows`` its 98 steps of them.

    Raises:
        ConfigurationError: As in ``OffPolicyCfg``, and for ``obs_normalization``, which these networks do themselves.
    """

    kind: ClassVar[str] = "flashsac"

    batch_size: Count = 2048
    updates_per_step: Count = 2
    policy_frequency: Count = 2
    gamma: Discount = 0.97
    tau: Share = 0.01
    replay_rows: Count = 512 * 1024
    learning_start_rows: Count = 98 * 1024
    atoms: Atoms = 101
    v_min: Finite = -5.0
    v_max: Finite = 5.0
    actor_width: Count = 128
    """Units between blocks."""
    critic_width: Count = 256
    """Units between blocks, in each of the two critics."""
    blocks: Count = 2
    """Residual blocks in the actor and in each critic."""
    expansion: Count = 4
    """Units inside a block for each one between blocks."""
    lr_init: Rate = 3e-4
    """Of actor, critics and temperature, at their first step."""
    lr_end: Rate = 1.5e-4
    """From step ``lr_horizon`` on."""
    lr_horizon: Count = 500_000
    """Steps of an optimiser until ``lr_end``; each optimiser counts its own."""
    alpha_init: Positive = 0.01
    """Temperature at the start, in units of scaled return per nat."""
    target_sigma: Positive = 0.15
    """The target entropy is that of a Gaussian of this deviation in each action, before squashing."""
    log_std_min: Finite = -10.0
    """Lowest natural logarithm of the policy's standard deviation, before tanh."""
    log_std_max: Finite = 2.0
    noise_exponent: Positive = 2.0
    """Exploration noise is held for k env steps with probability proportional to k^-noise_exponent."""
    noise_max_repeat: Count = 16
    """Greatest k."""
    max_return: Positive = 5.0
    """Rewards are scaled so that no discounted return seen so far would be larger than this."""
    policy_before_critic: bool = False
    """Whether actor and temperature learn before the critics in an update, as in the authors' code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_order(self, self.kind, "log_std_min", "log_std_max", fix="give the lower end first", equal=False)
        if self.obs_normalization:
            raise ConfigurationError(
                f"{self.kind}.obs_normalization is true, but the networks normalise their input: set it to false"
            )


@dataclass(frozen=True, kw_only=True)
class ExecutionCfg:
    """How updates run on the device; changes no more of what is learnt than rounding. Off by default: plain Torch.

    Raises:
        ConfigurationError: A value that is not one of the choices; names it as ``execution.field``.
    """

    kind: ClassVar[str] = "execution"

    graph: bool = False
    """Whether a whole cycle is captured once and replayed; needs CUDA."""
    compile: bool = False
    """Whether the losses are compiled."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the networks' arithmetic; parameters, returns and distributions are always float32."""

    def __post_init__(self) -> None:
        _check_fields(self, self.kind)


def _check_fields(settings: OffPolicyCfg | ExecutionCfg, kind: str) -> None:
    """Check every field alone, by its annotation."""
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        path, value, hint = f"{kind}.{field.name}", getattr(settings, field.name), hints[field.name]
        args = typing.get_args(hint)
        if hint is bool:
            if type(value) is not bool:
                raise ConfigurationError(f"{path} is {value!r}: give true or false")
        elif typing.get_origin(hint) is Literal:
            if value not in args:
                raise ConfigurationError(f"{path}: {unknown_name('choice', str(value), args)}")
        else:
            declared, limits = args
            for number in _numbers(declared, value, path):
                limits.check(number, path)


def _numbers(declared: object, value: object, path: str) -> tuple[int | float, ...]:
    """Return the numbers of a field. Raises ConfigurationError where it is of another type than declared."""
    if typing.get_origin(declared) is tuple:
        if not isinstance(value, tuple) or not value or any(type(item) is not int for item in value):
            raise ConfigurationError(f"{path} is {value!r}: give at least one whole number, e.g. (512, 256, 128)")
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if declared is float and isinstance(value, float):
        return (value,)
    raise ConfigurationError(f"{path} is {value!r}: give a {'whole ' if declared is int else ''}number")


def _check_order(settings: OffPolicyCfg, kind: str, low: str, high: str, *, fix: str, equal: bool = True) -> None:
    """Refuse a field above another one, or ``equal`` to it."""
    lower, upper = getattr(settings, low), getattr(settings, high)
    if lower > upper or (lower == upper and not equal):
        relation = "above" if equal else "not below"
        raise ConfigurationError(f"{kind}.{low} is {lower}, {relation} {kind}.{high} ({upper}): {fix}")
