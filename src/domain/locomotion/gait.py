"""A gait clock: one phase a row, and the phase of each foot shifted from it."""

import torch
from torch import Tensor

from domain.managers.command import CommandTerm
from domain.managers.state import set_rows
from domain.managers.terms import Finite, NonNegative
from domain.rng import Draw
from domain.view import EnvView


class GaitClock(CommandTerm):
    """Foot phases in [0, 1), (num_envs, feet), advanced once a control step before the rewards.

    Args:
        frequency: Cycles a second.
        offsets: Phase shift of each foot, in cycles; (0, 0.5, 0.5, 0) is a trot of FL, FR, RL, RR.
        random_start: Draw the phase anew at each resampling; otherwise the clock starts at 0 with the
            environment and never restarts.

    The phase is a float32 sum, so a step that falls on a boundary (0.6 at 2 Hz and 50 Hz) may count to either side.

    Source:
        Public unilab 1.5.2, Go2 joystick task.
    """

    draw_width = 1

    def __init__(self, env: EnvView, *, frequency: NonNegative, offsets: Finite, random_start: bool = False) -> None:
        super().__init__(env, offsets.numel())
        self._frequency = frequency
        self._offsets = offsets
        self._random_start = random_start
        self._phase = self.keep_rows("phase", env.num_envs, 1, device=env.device)
        self._refresh()

    def advance(self) -> None:
        """Move on by one control step."""
        self._phase.add_(self.env.step_dt * self._frequency).remainder_(1.0)
        self._refresh()

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Start the rows under ``mask`` at a random phase, if so declared."""
        if self._random_start:
            set_rows(self._phase, mask, draw.uniform())
            self._refresh()

    def _refresh(self) -> None:
        torch.remainder(self._phase + self._offsets, 1.0, out=self.value)
