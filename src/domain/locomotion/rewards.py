"""Reward terms about feet, most of them on a gait clock; each returns (num_envs,) float32."""

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.locomotion.gait import GaitClock
from domain.managers.state import Stateful, set_rows
from domain.managers.terms import Finite, Fraction, NonNegative, Positive, Range
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
        self._cycles = env.command_term(clock, GaitClock).cycles
        self._readings = _columns(env, sensors, 0, self._cycles)
        self._threshold, self._stance = threshold, stance

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        contact = torch.stack(self._readings, dim=1) > self._threshold
        return (contact == (self._cycles < self._stance)).float().mean(dim=1)


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
        self._cycles = env.command_term(clock, GaitClock).cycles
        self._heights = _columns(env, sensors, 2, self._cycles)
        self._target, self._sigma, self._stance = target, sigma, stance

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        height = torch.stack(self._heights, dim=1)
        swing = (self._cycles >= self._stance).float()
        return (torch.exp(-(height - self._target).square() / self._sigma) * swing).mean(dim=1)


class FeetFollowHeightCurve:
    """exp(-sum over feet of (height - curve)^2 / sigma), the curve that of ``swing_height``.

    Args:
        clock: Name of a gait clock, one phase a foot.
        sensors: World position sensor of each foot, in the clock's order.
        peak: Highest point of the curve, m, at phase 0.
        sigma: Width of the kernel, m^2.
        velocity_sensor: A velocimeter.
        min_forward_speed: 0 in rows that go forward slower than this, m/s; backward counts as standing.

    Raises:
        ConfigurationError: The model lacks a sensor, or there is not one a foot of the clock.

    Source:
        Public unilab 1.5.2, G1 walk task, ``feet_phase``.
    """

    def __init__(
        self,
        env: EnvView,
        *,
        clock: str,
        sensors: tuple[str, ...],
        peak: NonNegative,
        sigma: Positive,
        velocity_sensor: str,
        min_forward_speed: NonNegative,
    ) -> None:
        self._cycles = env.command_term(clock, GaitClock).cycles
        self._heights = _columns(env, sensors, 2, self._cycles)
        self._peak, self._sigma = peak, sigma
        self._forward = env.sensor(velocity_sensor)[:, 0]
        self._min_forward_speed = min_forward_speed

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, 1]."""
        error = torch.stack(self._heights, dim=1) - swing_height(self._cycles, self._peak)
        fast = self._forward.clamp(min=0.0) >= self._min_forward_speed
        return torch.exp(-error.square().sum(dim=1) / self._sigma) * fast.float()


class FeetAirTime(Stateful):
    """Number of feet that have been in the air for longer than a least and shorter than a longest time.

    Args:
        sensors: Contact sensors of each foot, a tuple a foot; a foot touches where any of its own does. Column 0
            counts.
        threshold: A reading above it is a contact (a count, or N).
        window: Least and longest time, s, both excluded.
        command: Name of a velocity command (vx, vy, wz).
        min_command: 0 in rows whose command is no more than this: planar speed in m/s plus |wz| in rad/s.

    Raises:
        ConfigurationError: The model lacks a sensor, or a foot has none.

    Source:
        Public unilab 1.5.2, G1 walk task, ``feet_air_time``.
    """

    def __init__(
        self,
        env: EnvView,
        *,
        sensors: tuple[tuple[str, ...], ...],
        threshold: NonNegative,
        window: Range,
        command: str,
        min_command: NonNegative,
    ) -> None:
        super().__init__()
        if not sensors or not all(sensors):
            raise ConfigurationError(f"sensors are {sensors}: name the feet's contact sensors, at least one a foot")
        self._readings = [[env.sensor(name)[:, 0] for name in foot] for foot in sensors]
        self._threshold, self._window = threshold, window
        self._command, self._min_command = env.command(command), min_command
        self._dt = env.step_dt
        self.air_time = self.keep_rows("air_time", env.num_envs, len(sensors), device=env.device)
        """s, (num_envs, feet); 0 while a foot touches."""

    def __call__(self) -> Tensor:
        """Return (num_envs,), in [0, feet]."""
        contact = torch.stack(
            [(torch.stack(foot, dim=1) > self._threshold).any(dim=1) for foot in self._readings], dim=1
        )
        self.air_time.add_(self._dt).masked_fill_(contact, 0.0)
        inside = (self.air_time > self._window[0]) & (self.air_time < self._window[1])
        asked: Tensor = torch.linalg.vector_norm(self._command[:, :2], dim=1) + self._command[:, 2].abs()
        return inside.float().sum(dim=1) * (asked > self._min_command).float()

    def reset(self, mask: Tensor) -> None:
        """Put the feet of the rows under ``mask`` on the ground."""
        set_rows(self.air_time, mask, 0.0)


class FeetTiltL2:
    """Squared x and y parts of the feet's quaternions, summed over feet: 0 when flat, about (tilt / 2)^2 near it.

    Args:
        sensors: Orientation sensor of each foot, w first.

    Raises:
        ConfigurationError: The model lacks a sensor, or one is no quaternion.

    Source:
        Public unilab 1.5.2, G1 walk task, ``penalty_feet_ori``.
    """

    def __init__(self, env: EnvView, *, sensors: tuple[str, ...]) -> None:
        self._parts = []
        for name in sensors:
            quat = env.sensor(name)
            if quat.shape[1] != 4:
                raise ConfigurationError(f"sensor '{name}' has {quat.shape[1]} columns, a quaternion has 4")
            self._parts.append(quat[:, 1:3])

    def __call__(self) -> Tensor:
        """Return (num_envs,)."""
        return torch.cat(self._parts, dim=1).square().sum(dim=1)


def swing_height(cycles: Tensor, peak: Tensor) -> Tensor:
    """Return the height that a foot should have at its phase, shaped like ``cycles``, m.

    Smooth steps, 3 t^2 - 2 t^3, from 0 at phase 0.5 up to ``peak`` at phase 0 (of the next cycle) and down again.

    Args:
        cycles: Phases in [0, 1).
        peak: m.

    Source:
        Public unilab 1.5.2, G1 walk task.
    """
    t = (2.0 * cycles - 1.0).abs()
    return peak * t.square() * (3.0 - 2.0 * t)


def _columns(env: EnvView, sensors: tuple[str, ...], column: int, phase: Tensor) -> list[Tensor]:
    """Return one column of each sensor, (num_envs,), one sensor a foot."""
    if len(sensors) != phase.shape[1]:
        raise ConfigurationError(f"{len(sensors)} sensors for the {phase.shape[1]} feet of the clock: give one a foot")
    return [env.sensor(name)[:, column] for name in sensors]
