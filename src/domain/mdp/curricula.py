"""Curricula by the global step counter, and by the length of episodes."""

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful
from domain.managers.terms import Bounds, Ordered, Positive, Range
from domain.view import EnvView

Scale = Annotated[float, Bounds(0.0)]
Scales = Annotated[Tensor, Ordered(), Bounds(0.0)]
Factors = Annotated[Tensor, Ordered(), Bounds(0.0, open_low=True)]
StageValue = float | tuple[float, ...] | Mapping[str, tuple[float, float]]


class StagedParameter:
    """Sets a run-time parameter to the value of the last stage that has begun.

    Args:
        target: Path of the parameter, e.g. ``rewards.action_rate.weight`` or
            ``commands.twist.params.lin_vel_x``.
        stages: (first global control step, value) pairs in rising order; before the first one the
            declared value stands. A value is written, and checked, like the parameter itself.

    Raises:
        ConfigurationError: Unknown target, stages out of order, or a value that the parameter cannot have.
    """

    def __init__(self, env: EnvView, *, target: str, stages: tuple[tuple[int, StageValue], ...]) -> None:
        self._env = env
        self._parameter = env.tunable(target)
        starts = [start for start, _ in stages]
        if not stages or starts != sorted(set(starts)) or starts[0] < 0:
            raise ConfigurationError(f"stages begin at {starts}: give at least one, in rising order, none negative")
        self._starts = torch.tensor(starts, dtype=torch.int64, device=env.device)
        self._values = [env.tunable_value(target, value, f"the value of stage {start}") for start, value in stages]

    @property
    def initial(self) -> Tensor:
        """What is logged before the first stage: the number of stages begun, 0."""
        return torch.zeros((), device=self._env.device)

    def __call__(self, mask: Tensor) -> Tensor:
        """Write the value that is due when any row under ``mask`` resets; return the number of stages begun."""
        begun = self._starts <= self._env.step_count
        resets = mask.any()
        for i, value in enumerate(self._values):
            self._parameter.copy_(torch.where(begun[i] & resets, value, self._parameter))
        return begun.sum().float()


class PenaltyScaling(Stateful):
    """Multiplies the negative weights of rewards by a scale that follows how long episodes last.

    At every reset of rows that ended, L <- (1 - w) L + w * (their mean length), w = min(their number / window, 1), from
    L = 0; where L is below ``lengths[0]`` the scale is multiplied by ``factors[0]``, where it is above ``lengths[1]``
    by ``factors[1]``, and it stays inside ``bounds``. The first episodes count the age that they were given.

    Args:
        start: First scale.
        bounds: Lowest and highest scale.
        lengths: Control steps, of a mean episode.
        factors: Of one reset, downwards and upwards.
        window_share: Episodes of the running mean, for each environment.
        targets: Paths of weights, ``rewards.<term>.weight``; None means those of all rewards. Those that are declared
            negative are scaled, from the start, and the others stay as they are.

    Raises:
        ConfigurationError: The first scale lies outside the bounds, or a target is no weight of a reward.

    Source:
        Public unilab 1.5.2, G1 walk task, ``penalty_scaling``.
    """

    def __init__(
        self,
        env: EnvView,
        *,
        start: Scale,
        bounds: Scales,
        lengths: Range,
        factors: Factors,
        window_share: Positive,
        targets: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self._scale = self.keep("scale", torch.full((), start, device=env.device))
        if not bool((bounds[0] <= self._scale) & (self._scale <= bounds[1])):
            raise ConfigurationError(
                f"start is {start}, outside bounds [{float(bounds[0])}, {float(bounds[1])}]: change one of them"
            )
        self._env = env
        self._bounds, self._lengths, self._factors = bounds, lengths, factors
        self._window_share = window_share
        weights = _weights(env) if targets is None else {path: env.tunable(path) for path in targets}
        if wrong := sorted(weights.keys() - _weights(env).keys()):
            raise ConfigurationError(
                f"targets: {', '.join(wrong)} is no weight of a reward: name rewards.<term>.weight"
            )
        self._weights = {path: weight for path, weight in weights.items() if bool(weight < 0.0)}
        self._nominal = {path: weight.clone() for path, weight in self._weights.items()}
        self._mean_length = self.keep("mean_length", torch.zeros((), device=env.device))
        self._write()

    @property
    def targets(self) -> tuple[str, ...]:
        """Paths of the weights that are scaled."""
        return tuple(self._weights)

    @property
    def initial(self) -> Tensor:
        """What is logged before an episode ends: the first scale."""
        return self._scale

    def __call__(self, mask: Tensor) -> Tensor:
        """Count the episodes that ended under ``mask``, adapt the weights and return the scale."""
        env = self._env
        ended = mask & (env.terminated | env.truncated)
        number = ended.sum().float()
        mean = torch.where(ended, env.episode_length, 0).sum() / number.clamp(min=1.0)
        share = (number / (self._window_share * env.num_envs)).clamp(max=1.0)
        self._mean_length.lerp_(mean, share)
        factor = torch.where(self._mean_length > self._lengths[1], self._factors[1], 1.0)
        factor = torch.where(self._mean_length < self._lengths[0], self._factors[0], factor)
        scale = (self._scale * factor).clamp(self._bounds[0], self._bounds[1])
        self._scale.copy_(torch.where(number > 0.0, scale, self._scale))
        self._write()
        return self._scale

    def _write(self) -> None:
        for path, weight in self._weights.items():
            torch.mul(self._nominal[path], self._scale, out=weight)


def _weights(env: EnvView) -> dict[str, Tensor]:
    def is_weight(path: str) -> bool:
        return path.startswith("rewards.") and path.endswith(".weight") and ".params." not in path

    return {path: value for path, value in env.tunables.items() if is_weight(path)}
