"""What the start of a child changes in the parent, and changes back."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from adapters.collector.lifeline import child_conditions, tie_to_parent
from domain.errors import WorkerError


def blocked() -> set[int]:
    return {int(signum) for signum in signal.pthread_sigmask(signal.SIG_BLOCK, ())}


def visible() -> list[str | None]:
    return [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]


def interrupt() -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


def test_the_environment_is_put_back_exactly_even_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    before = dict(os.environ)
    inside: list[list[str | None]] = []

    with contextlib.suppress(ZeroDivisionError), child_conditions():
        inside.append(visible())
        raise ZeroDivisionError

    assert inside == [["", ""]]
    assert dict(os.environ) == before


@pytest.fixture
def _interruptible() -> Iterator[None]:
    # A shell starts what runs in the background deaf to Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_signals_are_held_back_inside_and_delivered_afterwards() -> None:
    before = blocked()
    inside: list[set[int]] = []

    with contextlib.suppress(KeyboardInterrupt):
        with child_conditions():
            interrupt()
            inside.append(blocked())
        inside.clear()

    assert len(inside) == 1
    assert inside[0] >= {signal.SIGINT, signal.SIGTERM}
    assert blocked() == before


def test_a_process_without_a_parent_of_ours_has_no_lifeline() -> None:
    with pytest.raises(WorkerError, match="started by CollectorProcess"):
        tie_to_parent(dies_with_thread=False)
