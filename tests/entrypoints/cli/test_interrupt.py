"""The first and the second signal that asks for an end."""

import os
import signal
from dataclasses import dataclass

import pytest

from entrypoints.cli.interrupt import SIGNALS, stops_on_signal


@dataclass
class Flag:
    requested: bool = False


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_and_the_second_ends(
    capfd: pytest.CaptureFixture[str], signum: signal.Signals, code: int
) -> None:
    flag = Flag()
    before = [signal.getsignal(known) for known in SIGNALS]

    with stops_on_signal(flag) as received:
        os.kill(os.getpid(), signum)
        assert flag.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signum)

    assert received.exit_code == code
    assert "Ctrl-C again ends at once" in capfd.readouterr().err
    assert [signal.getsignal(known) for known in SIGNALS] == before
