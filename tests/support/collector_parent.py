"""A program with a collector process, led line by line through its standard input; Ctrl-C does not end it.

It prints the collector's number, then does what each line says and prints the line: ``ready`` waits, ``tick`` does one,
``grant`` lets one begin that does not end. Its argument says what happens in that step (``sleep`` or ``freeze``), and
``thread`` as a second one has a thread start the collector that ends at once.
"""

import signal
import sys
import threading
from functools import partial
from types import FrameType

from adapters.collector.process import CollectorProcess
from application.ports import Grant
from tests.support.collector_envs import PLAN, troubled


def say(text: object) -> None:
    """Print at once."""
    print(text, flush=True)  # noqa: T201 - the other end of the pipe waits for it


def survive(signum: int, frame: FrameType | None) -> None:
    """Take a Ctrl-C and go on."""


def main() -> None:
    """Do what comes in, until nothing does."""
    signal.signal(signal.SIGINT, survive)
    made: list[CollectorProcess] = []

    def start() -> None:
        made.append(CollectorProcess(partial(troubled, 2, sys.argv[1], 60.0), PLAN))

    if "thread" in sys.argv:
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    else:
        start()
    collector = made[0]
    say(collector.pid)
    tick = 0
    for line in sys.stdin:
        if line == "ready\n":
            collector.wait_ready(60.0)
        else:
            collector.grant(Grant(tick=tick, slot=tick % 2, policy_version=0))
            tick += 1
        if line == "tick\n":
            collector.wait(60.0)
        say(line.strip())


if __name__ == "__main__":
    main()
