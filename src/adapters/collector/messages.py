"""What the two processes tell each other. Tensors travel in the shared slots, never in a message.

Sending a tensor over a pipe would share its memory through files and a thread of its own; a saved state is therefore
sent as bytes, and read without executing code.
"""

import io
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

import domain.errors
from application.ports import EnvReport
from domain.env import ManagerBasedRlEnv
from domain.errors import UnilabError
from domain.replay.slots import ChunkHeader, Slots


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the process is started with."""

    builder: Callable[[], ManagerBasedRlEnv]
    slots: Slots
    checksums: bool
    continues: bool
    """Whether the environment goes on from a state, which the child asks for once it has built one."""
    dies_with_thread: bool
    """Whether the kernel may end the child when the thread that started it has ended."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """The environment stands and waits for the state to continue from."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """The first observation lies in its slot."""


@dataclass(frozen=True, kw_only=True)
class Ticked:
    """A tick is done: chunk and observation lie in their slots."""

    header: ChunkHeader
    began: float
    ended: float
    report: EnvReport | None
    state: bytes | None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The last message of a child that an exception ends."""

    kind: type[UnilabError] | None
    """The error's class in ``domain.errors``; None where it is of another tree."""
    message: str
    trace: str
    place: str
    """Tick and phase."""

    @classmethod
    def of(cls, error: BaseException, place: str) -> "Failed":
        """Describe ``error``, so that nothing of it needs to be importable elsewhere."""
        own = (c for c in type(error).__mro__ if issubclass(c, UnilabError) and c.__module__ == domain.errors.__name__)
        trace = "".join(traceback.format_exception(error)).rstrip()
        return cls(kind=next(own, None), message=str(error), trace=trace, place=place)


def packed(state: Mapping[str, Tensor]) -> bytes:
    """Return a state as bytes."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    return buffer.getvalue()


def unpacked(content: bytes) -> dict[str, Tensor]:
    """Return the state that ``packed`` has made bytes of."""
    state: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True)
    return state
