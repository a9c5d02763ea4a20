"""Noise on observations: what is configured, and the model that draws it from the env's block."""

import functools
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful, set_rows
from domain.managers.terms import Bounds, parse_numbers
from domain.view import EnvView

Operation = Literal["add", "scale", "abs"]
Value = float | tuple[float, ...]
OPERATIONS = ("add", "scale", "abs")


@dataclass(frozen=True, kw_only=True)
class NoiseCfg:
    """What every kind of noise has; values are scalars or one number a column."""

    operation: Operation = "add"

    def check(self, path: str) -> None:
        """Raise ConfigurationError where this noise cannot be drawn."""
        if self.operation not in OPERATIONS:
            raise ConfigurationError(f"{path}.operation is '{self.operation}': choose one of {', '.join(OPERATIONS)}")


@dataclass(frozen=True, kw_only=True)
class ConstantNoise(NoiseCfg):
    """The same value every time."""

    value: Value

    def check(self, path: str) -> None:
        """Raise ConfigurationError unless the value is finite."""
        super().check(path)
        Bounds().check(self.value, f"{path}.value")


@dataclass(frozen=True, kw_only=True)
class UniformNoise(NoiseCfg):
    """Uniform in [low, high); a tuple gives one range a column."""

    low: Value
    high: Value

    def check(self, path: str) -> None:
        """Raise ConfigurationError unless low < high in every column."""
        super().check(path)
        Bounds().check((self.low, self.high), f"{path} range")
        low, high = _columns(self.low), _columns(self.high)
        if len(low) != len(high) or not all(a < b for a, b in zip(low, high, strict=True)):
            raise ConfigurationError(f"{path} is uniform from {self.low} to {self.high}: low must be below high")


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(NoiseCfg):
    """Normal with mean and std, cut at ``clamp`` standard deviations where given."""

    std: Value
    mean: Value = 0.0
    clamp: float | None = None

    def check(self, path: str) -> None:
        """Raise ConfigurationError unless mean is finite, and std and clamp are above zero."""
        super().check(path)
        Bounds().check(self.mean, f"{path}.mean")
        Bounds(0.0, open_low=True).check(self.std, f"{path}.std")
        if self.clamp is not None:
            Bounds(0.0, open_low=True).check(self.clamp, f"{path}.clamp")


@dataclass(frozen=True, kw_only=True)
class BiasedNoise(NoiseCfg):
    """Per-step noise plus a bias drawn once an episode, one a column or one a row (``shared``)."""

    noise: UniformNoise | GaussianNoise | ConstantNoise
    bias: UniformNoise | GaussianNoise | ConstantNoise
    shared: bool = False

    def check(self, path: str) -> None:
        """Check both parts; the operation is this one's alone."""
        super().check(path)
        if self.noise.operation != "add" or self.bias.operation != "add":
            raise ConfigurationError(f"{path}: noise and bias are summed first, set operation on their BiasedNoise")
        self.noise.check(f"{path}.noise")
        self.bias.check(f"{path}.bias")


def _columns(value: Value) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


class _Source:
    """Draws one kind of unbiased noise, from separate columns inside a step and after a reset."""

    def __init__(self, cfg: NoiseCfg, env: EnvView, width: int, path: str) -> None:
        self._cfg = cfg
        if isinstance(cfg, ConstantNoise):
            self._value = _parameter(env, cfg.value, width, f"{path}.value")
            return
        self._draws = (env.rng.reserve(width), env.rng.reserve(width))
        if isinstance(cfg, UniformNoise):
            self._low = _parameter(env, cfg.low, width, f"{path}.low")
            self._high = _parameter(env, cfg.high, width, f"{path}.high")
        elif isinstance(cfg, GaussianNoise):
            self._mean = _parameter(env, cfg.mean, width, f"{path}.mean")
            self._std = _parameter(env, cfg.std, width, f"{path}.std")
        else:
            raise ConfigurationError(f"{path} is {type(cfg).__name__}: give constant, uniform or Gaussian noise")

    def sample(self, after_reset: bool) -> Tensor:
        if isinstance(self._cfg, ConstantNoise):
            return self._value
        draw = self._draws[after_reset]
        if isinstance(self._cfg, UniformNoise):
            return draw.between(self._low, self._high)
        normal = draw.normal()
        if isinstance(self._cfg, GaussianNoise) and self._cfg.clamp is not None:
            normal = normal.clamp(-self._cfg.clamp, self._cfg.clamp)
        return normal * self._std + self._mean


def _parameter(env: EnvView, value: Value, width: int, path: str) -> Tensor:
    parse = functools.partial(parse_numbers, device=env.device)
    tensor = parse(value, path)
    if tensor.numel() not in (1, width):
        raise ConfigurationError(f"{path} has {tensor.numel()} columns, the term has {width}")
    env.publish_tunable(path, tensor, parse)
    return tensor


class NoiseModel(Stateful):
    """Applies configured noise to one observation term of ``width`` columns.

    Raises:
        ConfigurationError: The noise is impossible.
    """

    def __init__(self, cfg: NoiseCfg, env: EnvView, width: int, path: str) -> None:
        super().__init__()
        cfg.check(path)
        self._operation = cfg.operation
        inner = cfg.noise if isinstance(cfg, BiasedNoise) else cfg
        self._source = _Source(inner, env, width, path)
        self._bias: Tensor | None = None
        if isinstance(cfg, BiasedNoise):
            columns = 1 if cfg.shared else width
            self._bias_source = _Source(cfg.bias, env, columns, f"{path}.bias")
            self._bias = self.keep_rows("bias", env.num_envs, columns, device=env.device)

    def __call__(self, value: Tensor, *, after_reset: bool = False) -> Tensor:
        """Return ``value`` (num_envs, width) with this block's noise."""
        noise = self._source.sample(after_reset)
        if self._bias is not None:
            noise = noise + self._bias
        if self._operation == "add":
            return value + noise
        return value * noise if self._operation == "scale" else noise.expand_as(value)

    def reset(self, mask: Tensor) -> None:
        """Draw a new bias for the rows under ``mask``."""
        if self._bias is not None:
            set_rows(self._bias, mask, self._bias_source.sample(after_reset=True))
