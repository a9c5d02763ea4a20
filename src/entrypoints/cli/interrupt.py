"""Ctrl-C during training: the first one finishes the iteration and saves, the second one ends at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C has ended."""
_NOTICE = b"\nstopping after the iteration in progress, if any, is saved; Ctrl-C again ends at once\n"
_STDERR = 2


class Stoppable(Protocol):
    """What can be asked to stop."""

    requested: bool


@contextmanager
def stops_on_interrupt(flag: Stoppable) -> Iterator[None]:
    """Let the first SIGINT set ``flag`` and the second raise KeyboardInterrupt; undo that at the end."""

    def handle(signum: int, frame: FrameType | None) -> None:
        if flag.requested:
            raise KeyboardInterrupt
        flag.requested = True
        # A handler may interrupt a buffered write, which must not be entered twice.
        os.write(_STDERR, _NOTICE)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
