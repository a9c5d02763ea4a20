"""Reward terms about feet that follow a gait clock; each returns (num_envs,) float32."""

import torch
from torch import Tensor

from domain.errors import ConfigurationError
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
        ConfigurationError: The model lacks a sensor, or there is not one a foot of the clock.

    Source:
        Public unilab 1.5.2, Go2 joystick task, ``contact``.
    """

    def __init__(
        self, env: EnvView, *, clock: str, sensors: tuple[str, ...], threshold: NonNegative, stance: Fraction
    ) -> None:
        self._phase = env.command(clock)
        self._readings = _columns(env, sensors, 0, self._phase)
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
        ConfigurationError: The model lacks a sensor, or there is not one a foot of the clock.

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
        self._heights = _columns(env, sensors, 2, self._phase)
        self._target, self._sigma, self._stance = target, sigma, stance

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        height = torch.stack(self._heights, dim=1)
        swing = (self._phase >= self._stance).float()
        return (torch.exp(-(height - self._target).square() / self._sigma) * swing).mean(dim=1)


def _columns(env: EnvView, sensors: tuple[str, ...], column: int, phase: Tensor) -> list[Tensor]:
    """Return one column of each sensor, (num_envs,), one sensor a foot."""
    if len(sensors) != phase.shape[1]:
        raise ConfigurationError(f"{len(sensors)} sensors for the {phase.shape[1]} feet of the clock: give one a foot")
    return [env.sensor(name)[:, column] for name in sensors]
