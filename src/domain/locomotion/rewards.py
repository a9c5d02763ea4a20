"""Reward terms about feet that follow a gait clock; each returns (num_envs,) float32."""

import torch
from torch import Tensor

from domain.managers.terms import Finite, Fraction, NonNegative, Positive
from domain.view import EnvView


class FeetContactMatchesGait:
    """Share of feet that touch the ground exactly while their phase says so.

    Args:
        clock: Name of a gait clock, one phase a foot.
        sensors: Contact sensor of each foot, in the clock's order; column 0 counts.
        threshold: A reading above it is a contact (a count, or N).
        stance: Share of the cycle, from its start, that a foot stands.

    Raises:
        ConfigurationError: The model lacks a sensor.

    Source:
        Public unilab 1.5.2, Go2 joystick task, ``contact``.
    """

    def __init__(
        self, env: EnvView, *, clock: str, sensors: tuple[str, ...], threshold: NonNegative, stance: Fraction
    ) -> None:
        self._phase = env.command(clock)
        self._readings = [env.sensor(name)[:, 0] for name in sensors]
        self._threshold, self._stance = threshold, stance

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        contact = torch.stack(self._readings, dim=1) > self._threshold
        return (contact == (self._phase < self._stance)).float().mean(dim=1)


class SwingFeetHeight:
    """Mean over feet of exp(-(height - target)^2 / sigma) for feet in swing, 0 for feet in stance.

    Args:
        clock: Name of a gait clock, one phase a foot.
        sensors: World position sensor of each foot, in the clock's order.
        target: Height of a swinging foot, m.
        sigma: Width of the kernel, m^2.
        stance: Share of the cycle, from its start, that a foot stands.

    Raises:
        ConfigurationError: The model lacks a sensor.

    Source:
        Public unilab 1.5.2, Go2 joystick task, ``swing_feet_z``.
    """

    def __init__(
        self,
        env: EnvView,
        *,
        clock: str,
        sensors: tuple[str, ...],
        target: Finite,
        sigma: Positive,
        stance: Fraction,
    ) -> None:
        self._phase = env.command(clock)
        self._heights = [env.sensor(name)[:, 2] for name in sensors]
        self._target, self._sigma, self._stance = target, sigma, stance

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        height = torch.stack(self._heights, dim=1)
        swing = (self._phase >= self._stance).float()
        return (torch.exp(-(height - self._target).square() / self._sigma) * swing).mean(dim=1)
