"""Curricula by the global step counter."""

from collections.abc import Mapping

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.view import EnvView

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
