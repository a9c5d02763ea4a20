"""How a child lives exactly as long as its parent wants: shielded from Ctrl-C, gone when the parent is.

All of it has to work while the child is busy in native code or hangs.
"""

import ctypes
import multiprocessing.process
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker

from domain.errors import WorkerError

HIDDEN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Set to nothing for the child, so that no library in it can open a GPU."""
_SHIELDED = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0


@contextmanager
def child_conditions() -> Iterator[None]:
    """Let a process started inside see no GPU and no Ctrl-C; then put everything back as it was.

    The signals are blocked, not ignored: what arrives meanwhile reaches this process afterwards, and the child is
    shielded from its first instruction on, long before its own code runs.
    """
    # It unblocks both signals when it starts, which the start of a process may cause.
    resource_tracker.ensure_running()
    before = {name: os.environ.get(name) for name in HIDDEN}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SHIELDED)
    try:
        os.environ.update(dict.fromkeys(HIDDEN, ""))
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def tie_to_parent(*, dies_with_thread: bool) -> None:
    """Ignore Ctrl-C and SIGTERM from now on, and end this process as soon as the parent has gone.

    Args:
        dies_with_thread: Ask the kernel too, which helps where native code never lets another thread run. It goes by
            the thread that started this process, so that thread has to live as long as its process.

    Raises:
        WorkerError: This process has no parent to live for.
    """
    parent = parent_process()
    if parent is None or parent.pid is None:
        raise WorkerError("a collector is started by CollectorProcess, not by itself")
    for signum in _SHIELDED:
        signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SHIELDED)
    if dies_with_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    threading.Thread(target=_watch, args=(parent, parent.pid), name="lifeline", daemon=True).start()


def _watch(parent: multiprocessing.process.BaseProcess, pid: int) -> None:
    # A process forked from the parent may hold the pipe behind join open; the parent's number shows its end all the
    # same. It is looked at first: the parent may have gone before the kernel was asked.
    while os.getppid() == pid and parent.is_alive():
        parent.join(_LOOK_S)
    # Whatever the other threads are at: nobody is left to wait for them.
    os.kill(os.getpid(), signal.SIGKILL)
