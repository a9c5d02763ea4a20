"""Ctrl-C or SIGTERM during training: the first finishes the iteration and saves, the second ends at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C has ended."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What asks for an end: a person, and a scheduler, container or service manager."""
_NOTICE = b"\nstopping after the iteration in progress, if any, is saved; Ctrl-C again ends at once\n"
_STDERR = 2


class Stoppable(Protocol):
    """What can be asked to stop."""

    requested: bool


@dataclass(slots=True)
class Received:
    """Which signal asked for the end."""

    signum: int = signal.SIGINT

    @property
    def exit_code(self) -> int:
        """What a shell shows for a process that the signal has ended: 130 or 143."""
        return 128 + self.signum


@contextmanager
def stops_on_signal(flag: Stoppable) -> Iterator[Received]:
    """Let the first signal set ``flag`` and the second raise KeyboardInterrupt; undo that at the end."""
    received = Received()

    def handle(signum: int, frame: FrameType | None) -> None:
        if flag.requested:
            raise KeyboardInterrupt
        flag.requested = True
        received.signum = signum
        # A handler may interrupt a buffered write, which must not be entered twice.
        # Its reader may have gone: the run is to be saved all the same.
        with suppress(OSError):
            os.write(_STDERR, _NOTICE)

    before = {signum: signal.signal(signum, handle) for signum in SIGNALS}
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
