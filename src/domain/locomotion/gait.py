"""A gait clock: one phase a row, or one a foot, and the phase of each foot shifted from it."""

import math

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.command import CommandTerm
from domain.managers.state import set_rows
from domain.managers.terms import Finite, NonNegative
from domain.rng import Draw
from domain.view import EnvView


class GaitClock(CommandTerm):
    """Foot phases, (num_envs, feet), advanced once a control step before the rewards.

    ``cycles`` are the foot phases in [0, 1), which reward terms read; ``value``, what a policy sees, is the same or,
    with ``radians``, in [0, 2 pi). ``phase``, (num_envs, 1) or (num_envs, feet) in cycles, is the clock itself, before
    the offsets.

    Args:
        frequency: Cycles a second.
        offsets: Phase shift of each foot, in cycles; (0, 0.5, 0.5, 0) is a trot of FL, FR, RL, RR.
        random_start: Draw the phase anew at each resampling; otherwise the clock starts at 0 with the
            environment and never restarts.
        independent: Draw each foot's phase by itself, so that the offsets mean nothing.
        radians: Show the policy radians.

    The phase is a float32 sum, so a step that falls on a boundary (0.6 at 2 Hz and 50 Hz) may count to either side.

    Raises:
        ConfigurationError: ``independent`` without ``random_start``.

    Source:
        Public unilab 1.5.2, Go2 joystick and G1 walk tasks.
    """

    draw_width = 1

    def __init__(
        self,
        env: EnvView,
        *,
        frequency: NonNegative,
        offsets: Finite,
        random_start: bool = False,
        independent: bool = False,
        radians: bool = False,
    ) -> None:
        feet = offsets.numel()
        super().__init__(env, feet)
        if independent and not random_start:
            raise ConfigurationError("independent feet are drawn at random: set random_start too")
        self._frequency = frequency
        self._offsets = offsets
        self._random_start = random_start
        self._radians = radians
        self.draw_width = feet if independent else 1
        self.phase = self.keep_rows("phase", env.num_envs, self.draw_width, device=env.device)
        self.cycles = self.keep_rows("cycles", env.num_envs, feet, device=env.device) if radians else self.value
        self._refresh()

    def advance(self) -> None:
        """Move on by one control step."""
        self.phase.add_(self.env.step_dt * self._frequency).remainder_(1.0)
        self._refresh()

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Start the rows under ``mask`` at a random phase, if so declared."""
        if self._random_start:
            set_rows(self.phase, mask, draw.uniform())
            self._refresh()

    def _refresh(self) -> None:
        torch.remainder(self.phase + self._offsets, 1.0, out=self.cycles)
        if self._radians:
            torch.mul(self.cycles, 2.0 * math.pi, out=self.value)
