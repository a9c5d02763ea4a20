"""How a declared term becomes a callable: parameters checked, made device tensors, names resolved.

A parameter's annotation says what it may be. ``Tensor`` becomes a float32 device tensor that a
curriculum may change; a selector is resolved to ids; everything else is fixed at construction.
"""

import contextlib
import functools
import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor

from domain.entity import PART_KINDS, EntitySelection, EntitySelector
from domain.errors import ConfigurationError, unknown_name
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class TermCfg:
    """A term: a function ``f(env, *, params)`` or a class built as ``Cls(env, *, params)`` and then called."""

    func: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bounds:
    """Limits of every element of a numeric parameter."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def check(self, value: object, path: str) -> None:
        """Raise ConfigurationError where a number in ``value`` is not finite or outside."""
        for number in _numbers(value, path):
            inside = (number > self.low if self.open_low else number >= self.low) and number <= self.high
            if not (math.isfinite(number) and inside):
                bracket = "(" if self.open_low or math.isinf(self.low) else "["
                raise ConfigurationError(f"{path} is {number}, outside {bracket}{self.low}, {self.high}]: change it")


@dataclass(frozen=True)
class Ordered:
    """Marks a (low, high) pair of finite numbers with low <= high, or low < high where they stand ``apart``."""

    apart: bool = False

    def check(self, value: object, path: str) -> None:
        """Raise ConfigurationError for a reversed, non-finite or wrongly sized pair."""
        numbers = _numbers(value, path)
        is_pair = isinstance(value, tuple | list) and len(value) == len(numbers) == 2
        if not is_pair or not all(map(math.isfinite, numbers)):
            raise ConfigurationError(f"{path} is {value}: give two finite numbers, low and high")
        if numbers[0] > numbers[1]:
            raise ConfigurationError(f"{path} is {value}: low is above high, swap them")
        if self.apart and numbers[0] == numbers[1]:
            raise ConfigurationError(f"{path} is {value}: nothing lies between, give a high above low")


@dataclass(frozen=True)
class RangeTable:
    """Marks a mapping from axis name to a (low, high) pair; a missing axis is (0, 0)."""

    axes: tuple[str, ...]

    def check(self, value: object, path: str) -> None:
        """Raise ConfigurationError for an unknown axis or a bad pair."""
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{path} is {value}: give a mapping of {', '.join(self.axes)} to (low, high)")
        for axis, pair in value.items():
            if axis not in self.axes:
                raise ConfigurationError(f"{path}: {unknown_name('axis', axis, self.axes)}")
            Ordered().check(pair, f"{path}.{axis}")


Positive = Annotated[Tensor, Bounds(0.0, open_low=True)]
NonNegative = Annotated[Tensor, Bounds(0.0)]
Fraction = Annotated[Tensor, Bounds(0.0, 1.0)]
Finite = Annotated[Tensor, Bounds()]
Range = Annotated[Tensor, Ordered()]
"""(2,): low, high."""
FixedRange = Annotated[tuple[float, float], Ordered(apart=True)]
"""low, high, fixed at construction."""
Choice = typing.Literal
Check = Bounds | Ordered | RangeTable
POSE_AXES = ("x", "y", "z", "roll", "pitch", "yaw")
PoseRanges = Annotated[Tensor, RangeTable(POSE_AXES)]
"""(2, 6): low and high of x, y, z in m (or m/s) and roll, pitch, yaw in rad (or rad/s)."""


def check_params(func: Callable[..., Any], params: Mapping[str, Any], path: str) -> None:
    """Check a term's parameters by its signature, without an environment.

    Args:
        func: The term's function or class.
        params: Values by name, as configured.
        path: Where they stand in the configuration, e.g. ``rewards.alive``.

    Raises:
        ConfigurationError: An unknown, missing or impossible parameter.
    """
    signature, hints = _signature(func)
    for name in params:
        if name not in signature:
            raise ConfigurationError(f"{path}.params: {unknown_name('parameter', name, signature)}")
    for name, parameter in signature.items():
        if name not in params:
            if parameter.default is inspect.Parameter.empty:
                raise ConfigurationError(f"{path}.params.{name} is missing: {_name(func)} needs it")
            continue
        _check_value(hints.get(name), params[name], f"{path}.params.{name}")


def bind_term(cfg: TermCfg, env: EnvView, path: str) -> Any:
    """Return the term as a callable that needs no more than a row mask, if anything.

    Errors of a class's constructor carry the term's path.
    """
    check_params(cfg.func, cfg.params, path)
    signature, hints = _signature(cfg.func)
    kwargs: dict[str, Any] = {}
    with named(path):
        for name, parameter in signature.items():
            value = cfg.params.get(name, parameter.default)
            kwargs[name] = _convert(hints.get(name), value, env, f"{path}.params.{name}")
        build: Callable[..., Any] = cfg.func
        return build(env, **kwargs) if inspect.isclass(cfg.func) else functools.partial(build, env, **kwargs)


def probe(
    term: Callable[[], Tensor], path: str, shape: tuple[int | None, ...], dtype: torch.dtype, env: EnvView
) -> Tensor:
    """Call a term once at construction and refuse a wrong shape, type or device.

    ``None`` in ``shape`` stands for any size.

    Raises:
        ConfigurationError: Names the term, what it returned and what is expected.
    """
    with named(path):
        value = term()
    want = f"{dtype} of shape {shape} on {env.device}".replace("None", "any")
    if not isinstance(value, Tensor):
        raise ConfigurationError(f"{path} returned {type(value).__name__}, expected {want}")
    fits = len(value.shape) == len(shape) and all(w is None or s == w for s, w in zip(value.shape, shape, strict=True))
    if not fits or value.dtype != dtype or value.device.type != env.device.type:
        raise ConfigurationError(
            f"{path} returned {value.dtype} of shape {tuple(value.shape)} on {value.device}, expected {want}"
        )
    return value


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Put the term's path in front of a ConfigurationError from inside, and beside any other error."""
    try:
        yield
    except ConfigurationError as error:
        raise type(error)(f"{path}: {error}") from error
    except Exception as error:
        error.add_note(f"in {path}")
        raise


def reset_term(term: object, mask: Tensor) -> None:
    """Reset a class term that has state of its own."""
    reset = getattr(term, "reset", None)
    if reset is not None:
        reset(mask)


def parse_numbers(value: object, path: str, *, device: torch.device, checks: Sequence[Check] = (Bounds(),)) -> Tensor:
    """Return a declared number, or nest of numbers, as a float32 tensor.

    Raises:
        ConfigurationError: A check fails; names ``path``.
    """
    for check in checks:
        check.check(value, path)
        if isinstance(check, RangeTable) and isinstance(value, Mapping):
            pairs = [tuple(value.get(axis, (0.0, 0.0))) for axis in check.axes]
            value = tuple(zip(*pairs, strict=True))
    return torch.tensor(value, dtype=torch.float32, device=device)


SECONDS: tuple[Check, ...] = (Ordered(), Bounds(0.0))


def check_seconds(value: object, path: str) -> None:
    """Raise ConfigurationError unless ``value`` is a (low, high) pair of seconds, none negative."""
    for check in SECONDS:
        check.check(value, path)


def parse_seconds(value: object, path: str, env: EnvView) -> Tensor:
    """Return and publish a run-time (low, high) pair of seconds, none negative."""
    parse = functools.partial(parse_numbers, device=env.device, checks=SECONDS)
    tensor = parse(value, path)
    env.publish_tunable(path, tensor, parse)
    return tensor


def _signature(func: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    target = func.__init__ if inspect.isclass(func) else func
    parameters = inspect.signature(target).parameters
    hints = typing.get_type_hints(target, include_extras=True)
    return {n: p for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}, hints


def _checks(hint: Any) -> list[Check]:
    """Return the checks of a parameter's annotation; a bare Tensor is finite."""
    options = (hint, *typing.get_args(hint))
    marks = [m for o in options for m in getattr(o, "__metadata__", ()) if isinstance(m, Check)]
    return marks or ([Bounds()] if _is_tensor(hint) else [])


def _check_value(hint: Any, value: Any, path: str) -> None:
    options = typing.get_args(hint)
    if type(None) in options:
        if value is None:
            return
        given = [option for option in options if option is not type(None)]
        hint = given[0] if len(given) == 1 else hint
    if typing.get_origin(hint) is typing.Literal and value not in typing.get_args(hint):
        raise ConfigurationError(f"{path}: {unknown_name('choice', str(value), map(str, typing.get_args(hint)))}")
    if hint in (bool, int, str) and type(value) is not hint:
        raise ConfigurationError(f"{path} is {value!r}: give a value of type {hint.__name__}")
    if hint is EntitySelection:
        _check_selector(value, path)
    for check in _checks(hint):
        check.check(value, path)


def _check_selector(value: object, path: str) -> None:
    """Refuse what is no selector, and one that names parts which a parameter called ``joints`` etc. never reads."""
    if not isinstance(value, EntitySelector):
        raise ConfigurationError(f"{path} is {value!r}: give an EntitySelector")
    takes = path.rpartition(".")[2]
    unused = [kind for kind in PART_KINDS if kind != takes and getattr(value, kind) is not None]
    if takes in PART_KINDS and unused:
        raise ConfigurationError(f"{path} selects {', '.join(unused)}, but only its {takes} count: drop them")


def _is_tensor(hint: Any) -> bool:
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return hint is Tensor or Tensor in (typing.get_args(hint) or ()) or any(map(_is_tensor, typing.get_args(hint)))


def _convert(hint: Any, value: Any, env: EnvView, path: str) -> Any:
    if value is None:
        return None
    if isinstance(value, EntitySelector):
        return EntitySelection(value, env.entity(value.entity))
    if not _is_tensor(hint):
        return value
    parse = functools.partial(parse_numbers, device=env.device, checks=_checks(hint))
    tensor = parse(value, path)
    env.publish_tunable(path, tensor, parse)
    return tensor


def _numbers(value: object, path: str) -> list[float]:
    if isinstance(value, bool) or not isinstance(value, int | float | tuple | list):
        raise ConfigurationError(f"{path} is {value!r}: give a number")
    if isinstance(value, int | float):
        return [float(value)]
    return [number for item in value for number in _numbers(item, path)]


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))
