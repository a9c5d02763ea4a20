"""Turns declared values into plain data and back; what comes back has the type that the declaration gives it.

Plain data are None, bool, int, float, str, and lists and dicts of them. A declaration says what a value may be:
by a dataclass field's annotation, by a term parameter's annotation, or else by the declared value itself.
"""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from torch import Tensor

from domain.entity import EntitySelection, EntitySelector
from domain.errors import ConfigurationError, unknown_name
from domain.managers.noise import BiasedNoise, ConstantNoise, GaussianNoise, NoiseCfg, UniformNoise

KIND = "kind"
NOISE_KINDS: Mapping[str, type[NoiseCfg]] = types.MappingProxyType(
    {"constant": ConstantNoise, "uniform": UniformNoise, "gaussian": GaussianNoise, "biased": BiasedNoise}
)
"""What a noise's ``kind`` may be in a configuration."""


def to_plain(value: object, path: str) -> object:
    """Return ``value`` as plain data; dataclasses become dicts, a noise with its kind.

    Raises:
        ConfigurationError: The declaration holds something that cannot be written down; names ``path``.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [to_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {f.name: to_plain(getattr(value, f.name), f"{path}.{f.name}") for f in dataclasses.fields(value)}
        kinds = [name for name, cls in NOISE_KINDS.items() if type(value) is cls]
        return {KIND: kinds[0], **plain} if kinds else plain
    raise ConfigurationError(
        f"{path} is a {type(value).__name__}: declare numbers, texts, and lists or mappings of them"
    )


def from_plain(hint: Any, declared: object, value: object, path: str) -> Any:
    """Return plain ``value`` as what the annotation ``hint`` asks for, lists as tuples.

    Args:
        hint: An annotation; where it does not say enough (``Any``, ``Tensor``), ``declared`` decides.
        declared: The value of the declaration.
        value: Plain data.
        path: Where it stands, for the error.

    Raises:
        ConfigurationError: The value has another type, length, key or is not finite; names its path.
    """
    hint, origin, args = _take_apart(hint)
    if origin is typing.Union or origin is types.UnionType:
        return _from_union(args, declared, value, path)
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in args):
            text = value if isinstance(value, str) else show(value)
            raise ConfigurationError(f"{path}: {unknown_name('choice', text, map(str, args))}")
        return value
    if origin is tuple:
        return _from_tuple(args, declared, value, path)
    if origin is not None and issubclass(origin, Mapping):
        return _from_mapping(args[1], declared, value, path)
    if inspect.isclass(hint) and issubclass(hint, NoiseCfg):
        return _from_noise(hint, declared, value, path)
    if inspect.isclass(hint) and dataclasses.is_dataclass(hint):
        return _from_dataclass(hint, declared, value, path)
    if hint in (bool, int, float, str):
        return _scalar(hint, value, path)
    return _like(declared, value, path, floats=hint is Tensor)


def _take_apart(hint: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the annotation without marks, its origin and its arguments; a resolved selection is a selector."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if hint is EntitySelection:
        hint = EntitySelector
    return hint, typing.get_origin(hint), typing.get_args(hint)


def _from_union(options: Sequence[Any], declared: object, value: object, path: str) -> Any:
    if value is None and type(None) in options:
        return None
    real = [option for option in options if option is not type(None)]
    chosen = next((option for option in real if _may_take(option, value)), real[0])
    return from_plain(chosen, declared, value, path)


def _may_take(option: Any, value: object) -> bool:
    """Whether plain ``value`` has the outer form of ``option``."""
    option, origin, args = _take_apart(option)
    if isinstance(value, list):
        return origin is tuple or option is Tensor
    if isinstance(value, Mapping):
        if inspect.isclass(option) and issubclass(option, NoiseCfg):
            return option is NoiseCfg or NOISE_KINDS.get(str(value.get(KIND))) is option
        return dataclasses.is_dataclass(option) or (origin is not None and issubclass(origin, Mapping))
    if isinstance(value, str):
        return option is str or (origin is Literal and value in args)
    if isinstance(value, bool):
        return option is bool
    return option is float or option is Tensor or (option is int and isinstance(value, int))


def _from_tuple(args: Sequence[Any], declared: object, value: object, path: str) -> tuple[Any, ...]:
    items = _items(value, path)
    before = declared if isinstance(declared, tuple | list) else ()
    if len(args) == 2 and args[1] is Ellipsis:
        args = [args[0]] * len(items)
    elif len(items) != len(args):
        raise ConfigurationError(f"{path} has {len(items)} values: give {len(args)}")
    return tuple(
        from_plain(args[i], before[min(i, len(before) - 1)] if before else None, item, f"{path}[{i}]")
        for i, item in enumerate(items)
    )


def _from_mapping(hint: Any, declared: object, value: object, path: str) -> dict[str, Any]:
    plain = mapping(value, path)
    if not isinstance(declared, Mapping):
        return {key: from_plain(hint, None, item, f"{path}.{key}") for key, item in plain.items()}
    exact_keys(declared, plain, path)
    return {key: from_plain(hint, declared[key], plain[key], f"{path}.{key}") for key in declared}


def _from_noise(hint: type[NoiseCfg], declared: object, value: object, path: str) -> NoiseCfg:
    plain = mapping(value, path)
    kinds = {name: cls for name, cls in NOISE_KINDS.items() if issubclass(cls, hint)}
    if plain.get(KIND) not in kinds:
        raise ConfigurationError(f"{path}.kind: {unknown_name('choice', str(plain.get(KIND)), kinds)}")
    noise = kinds[str(plain[KIND])]
    rest = {name: item for name, item in plain.items() if name != KIND}
    return typing.cast(NoiseCfg, _from_dataclass(noise, declared, rest, path))


def _from_dataclass(cls: Any, declared: object, value: object, path: str) -> Any:
    plain = mapping(value, path)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    # A structure that the user writes whole may leave out what has a default.
    defaults = {n for n, f in fields.items() if f.default is not dataclasses.MISSING}
    optional = set() if isinstance(declared, cls) else defaults
    exact_keys(fields, plain, path, optional=optional)
    hints = typing.get_type_hints(cls, include_extras=True)
    kwargs = {
        name: from_plain(hints[name], getattr(declared, name, None), item, f"{path}.{name}")
        for name, item in plain.items()
    }
    return cls(**kwargs)


def _like(declared: object, value: object, path: str, *, floats: bool) -> Any:
    """Return ``value`` with the type of ``declared``; ``floats`` takes a declared whole number for a real one."""
    if isinstance(declared, bool | str):
        return _scalar(type(declared), value, path)
    if isinstance(declared, int | float):
        return _scalar(float if floats else type(declared), value, path)
    if isinstance(declared, tuple | list):
        items = _items(value, path)
        if all(_is_number(item) for item in declared) and declared and len(items) != len(declared):
            raise ConfigurationError(f"{path} has {len(items)} values: give {len(declared)}")
        return tuple(
            _like(declared[min(i, len(declared) - 1)] if declared else None, item, f"{path}[{i}]", floats=floats)
            for i, item in enumerate(items)
        )
    if isinstance(declared, Mapping):
        plain = mapping(value, path)
        exact_keys(declared, plain, path)
        return {key: _like(declared[key], plain[key], f"{path}.{key}", floats=floats) for key in declared}
    if dataclasses.is_dataclass(declared):
        return from_plain(type(declared), declared, value, path)
    return _free(value, path)


def _free(value: object, path: str) -> Any:
    """Return what the user put where the declaration leaves nothing: any finite plain value."""
    if isinstance(value, list):
        return tuple(_free(item, f"{path}[{i}]") for i, item in enumerate(value))
    if isinstance(value, Mapping):
        return {key: _free(item, f"{path}.{key}") for key, item in value.items()}
    return _scalar(float, value, path) if isinstance(value, float) else value


def _scalar(kind: type, value: object, path: str) -> Any:
    if kind in (int, float) and isinstance(value, str):
        hint = "write the number without quotes" if _looks_numeric(value) else "give a number"
        raise ConfigurationError(f"{path} is {show(value)}: {hint}")
    if kind is float and _is_number(value):
        if not math.isfinite(typing.cast(float, value)):
            raise ConfigurationError(f"{path} is {value}: give a finite number")
        return float(typing.cast(float, value))
    if type(value) is not kind:
        wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[kind]
        raise ConfigurationError(f"{path} is {show(value)}: give {wanted}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _looks_numeric(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _items(value: object, path: str) -> list[object]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{path} is {show(value)}: give a list, e.g. [0, 1]")
    return list(value)


def mapping(value: object, path: str) -> Mapping[str, object]:
    """Return ``value`` if it is a mapping. Raises ConfigurationError, naming ``path``, otherwise."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{path} is {show(value)}: give a mapping of keys to values")
    return value


def exact_keys(known: Iterable[str], given: Mapping[str, object], path: str, *, optional: Iterable[str] = ()) -> None:
    """Raise ConfigurationError for a key of ``given`` that is unknown, or a known one that is absent."""
    names = list(known)
    for name in given:
        if name not in names:
            raise ConfigurationError(f"{path}: {unknown_name('key', str(name), names)}")
    for name in names:
        if name not in given and name not in optional:
            raise ConfigurationError(f"{path}.{name} is missing")


def show(value: object) -> str:
    """Return ``value`` as a user writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {show(item)}' for key, item in value.items())}}}"
    return str(value)
