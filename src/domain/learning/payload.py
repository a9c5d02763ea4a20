"""The saved form of a learner: plain data and tensors, checked as a whole before anything is loaded."""

from collections.abc import Mapping
from ctypes import string_at

import torch
from torch import Tensor

from domain.errors import DataError

FORMAT = 1
COUNTERS = frozenset({"updates", "policy_version"})


def pack(
    kind: str,
    shape: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    counters: Mapping[str, int],
    generator: torch.Generator,
) -> dict[str, object]:
    """Return a payload with copies of ``tensors``."""
    state = generator.get_state()
    return {
        "format": FORMAT,
        "kind": kind,
        "shape": dict(shape),
        "tensors": {name: tensor.clone() for name, tensor in tensors.items()},
        "counters": dict(counters),
        # As text: a loader that moves tensors to its device would move this one too, and generators refuse that.
        "rng": {"device": generator.device.type, "state": string_at(state.data_ptr(), state.numel()).hex()},
    }


def unpack(
    state: Mapping[str, object], kind: str, shape: Mapping[str, object], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, int], Mapping[str, object]]:
    """Return the tensors, counters and random state of a payload that fits the learner described.

    Raises:
        DataError: Another algorithm, version or shape, or a missing, surplus or damaged entry; names what differs.
    """
    check_kind(state, kind)
    saved_shape = table(state, "shape")
    different = [
        f"{name} is {saved_shape.get(name)} there and {shape.get(name)} here"
        for name in sorted(shape.keys() | saved_shape.keys(), key=str)
        if saved_shape.get(name) != shape.get(name)
    ]
    if different:
        raise DataError(f"the checkpoint is of another learner: {'; '.join(different)}")
    return fitting(table(state, "tensors"), tensors), _counters(table(state, "counters")), table(state, "rng")


def check_kind(state: Mapping[str, object], kind: str) -> None:
    """Raise DataError where a payload is none, or of another algorithm or version."""
    if not isinstance(state, Mapping):
        raise DataError(f"a learner's checkpoint is a table, not a {type(state).__name__}")
    if state.get("kind") != kind:
        raise DataError(f"the checkpoint was learnt by '{state.get('kind')}', not by '{kind}': choose that algorithm")
    if type(state.get("format")) is not int or state["format"] != FORMAT:
        raise DataError(f"the checkpoint has format {state.get('format')}, this version reads {FORMAT}")


def _counters(saved: Mapping[str, object]) -> dict[str, int]:
    counters = {name: value for name, value in saved.items() if type(value) is int and value >= 0}
    if counters.keys() != saved.keys() or counters.keys() != COUNTERS:
        raise DataError(f"the checkpoint's entry 'counters' is damaged: it needs {', '.join(sorted(COUNTERS))}")
    return counters


def fitting(saved: Mapping[str, object], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return saved tensors that are, by name, what ``own`` holds.

    Raises:
        DataError: A missing or surplus name, another shape or type, or a number that is not finite; names the tensor.
    """
    found: dict[str, Tensor] = {}
    for name in sorted(saved.keys() | own.keys(), key=str):
        there, here = saved.get(name), own.get(name)
        if not isinstance(there, Tensor) or here is None:
            what = "lacks" if here is not None else "has an unknown"
            raise DataError(f"the checkpoint {what} tensor '{name}': it belongs to another configuration")
        if there.shape != here.shape or there.dtype != here.dtype:
            raise DataError(
                f"the checkpoint's '{name}' is {there.dtype} of shape {tuple(there.shape)}, "
                f"expected {here.dtype} of shape {tuple(here.shape)}"
            )
        if not bool(torch.isfinite(there).all()):
            raise DataError(f"the checkpoint's '{name}' holds numbers that are not finite")
        found[name] = there
    return found


def table(state: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a nested mapping of a payload. Raises DataError where there is none."""
    value = state.get(name)
    if not isinstance(value, Mapping):
        raise DataError(f"the checkpoint's entry '{name}' is missing or damaged")
    return value


def restore_generator(generator: torch.Generator, rng: Mapping[str, object], seed: int) -> None:
    """Continue a random stream, or start it at ``seed`` where it was saved on another type of device.

    Raises:
        DataError: The saved state is damaged.
    """
    device, state = rng.get("device"), rng.get("state")
    if not isinstance(device, str) or not isinstance(state, str):
        raise DataError("the checkpoint's random state is damaged: it has no device or no state")
    if device != generator.device.type:
        generator.manual_seed(seed)
        return
    try:
        generator.set_state(torch.tensor(list(bytes.fromhex(state)), dtype=torch.uint8))
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"the checkpoint's random state is damaged: {error}") from error
