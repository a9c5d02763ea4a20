"""Finds the term that keeps a step from being recorded, before anything is recorded."""

import functools
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from domain.errors import ConfigurationError
from domain.managers.state import Stateful


@contextmanager
def must_record(owner: Stateful, device: torch.device) -> Iterator[None]:
    """Refuse work inside that waits for ``device``, a CUDA one, and name the part of ``owner`` that does it.

    A CUDA graph holds device work alone: what waits for a result, to branch or to copy it away, cannot be a part of it.

    Raises:
        ConfigurationError: Names the term.
    """
    before = torch.cuda.get_sync_debug_mode()
    _set_sync_debug_mode("error")
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        path = culprit(error, owner)
        if path is None:
            raise
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"{path} cannot be a part of a recorded step ({reason}): keep it on the device, or run with --no-graph"
        ) from error
    finally:
        _set_sync_debug_mode(before)


def _set_sync_debug_mode(mode: int | str) -> None:
    with warnings.catch_warnings():
        # Torch says that the mode may overlook operations; recording then fails on those.
        warnings.simplefilter("ignore", UserWarning)
        torch.cuda.set_sync_debug_mode(mode)


def culprit(error: BaseException, owner: Stateful) -> str | None:
    """Return the dotted path of the innermost part of ``owner`` in whose code ``error`` arose; None for another's."""
    parts = list(_parts(owner))
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for path, part in parts:
            if _runs(part, frame):
                return path
    return None


def _parts(owner: Stateful, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, part in owner.children():
        path = prefix + name.removesuffix("/term").replace("/", ".")
        yield path, part
        if isinstance(part, Stateful):
            yield from _parts(part, f"{path}.")


def _runs(part: object, frame: FrameType) -> bool:
    if isinstance(part, functools.partial):
        # Terms may share a function: its parameters tell which it is.
        own = all(frame.f_locals.get(name) is value for name, value in part.keywords.items())
        return own and getattr(part.func, "__code__", None) is frame.f_code
    return part is not None and frame.f_locals.get("self") is part
