"""The first and the second Ctrl-C."""

import os
import signal
from dataclasses import dataclass

import pytest

from entrypoints.cli.interrupt import stops_on_interrupt


@dataclass
class Flag:
    requested: bool = False


def test_the_first_interrupt_asks_and_the_second_ends(capfd: pytest.CaptureFixture[str]) -> None:
    flag = Flag()
    before = signal.getsignal(signal.SIGINT)

    with stops_on_interrupt(flag):
        os.kill(os.getpid(), signal.SIGINT)
        assert flag.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    assert "Ctrl-C again ends at once" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
