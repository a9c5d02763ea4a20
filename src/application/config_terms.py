"""Turns a declared term into plain data and back: its settings and parameters, without its function."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from application.config_values import exact_keys, from_plain, mapping, to_plain
from domain.managers.terms import RangeTable, TermCfg

_NO_RANGE = (0.0, 0.0)


def term_to_plain(cfg: TermCfg, path: str) -> dict[str, object]:
    """Return a term's settings and parameters, without its function; unset parameters show their defaults."""
    plain = {name: to_plain(getattr(cfg, name), f"{path}.{name}") for name in term_fields(cfg)}
    return {**plain, "params": to_plain(full_params(cfg), f"{path}.params")}


def term_from_plain(cfg: TermCfg, value: object, path: str) -> TermCfg:
    """Return ``cfg`` with the settings and parameters of ``value``.

    A parameter with a default may be absent and is then as declared: runs saved before it existed stay readable.

    Raises:
        ConfigurationError: A missing or unknown key, or a value of another type; names its path.
    """
    plain = mapping(value, path)
    exact_keys([*term_fields(cfg), "params"], plain, path)
    hints = typing.get_type_hints(type(cfg), include_extras=True)
    changes: dict[str, Any] = {
        name: from_plain(hints[name], getattr(cfg, name), plain[name], f"{path}.{name}") for name in term_fields(cfg)
    }
    declared, given = full_params(cfg), mapping(plain["params"], f"{path}.params")
    exact_keys(declared, given, f"{path}.params", optional=_defaults(cfg.func))
    hints = parameter_hints(cfg.func)
    changes["params"] = {
        name: from_plain(hints.get(name, Any), default, given[name], f"{path}.params.{name}")
        if name in given
        else default
        for name, default in declared.items()
    }
    return dataclasses.replace(cfg, **changes)


def term_fields(cfg: TermCfg) -> list[str]:
    """Return the names of a term's settings beside its function and parameters."""
    return [field.name for field in dataclasses.fields(cfg) if field.name not in ("func", "params")]


def full_params(cfg: TermCfg) -> dict[str, Any]:
    """Return a term's parameters with the defaults of its function, and every axis of a table of ranges."""
    hints = parameter_hints(cfg.func)
    defaults = _defaults(cfg.func)
    params = {**cfg.params, **{name: default for name, default in defaults.items() if name not in cfg.params}}
    return {name: _all_axes(hints.get(name), value) for name, value in params.items()}


def parameter_hints(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a term's function, or of its class's constructor."""
    target = func.__init__ if inspect.isclass(func) else func
    return typing.get_type_hints(target, include_extras=True)


def _defaults(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that a term's function has a value for."""
    target = func.__init__ if inspect.isclass(func) else func
    return {
        name: parameter.default
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is not inspect.Parameter.empty
    }


def _all_axes(hint: Any, value: Any) -> Any:
    for option in (hint, *typing.get_args(hint)):
        for mark in getattr(option, "__metadata__", ()):
            if isinstance(mark, RangeTable) and isinstance(value, Mapping):
                return {**dict.fromkeys(mark.axes, _NO_RANGE), **value}
    return value
