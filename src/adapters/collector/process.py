"""Collector over a process of its own, which shares the slots and takes messages over one pipe."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.util import Finalize

import torch
from torch import Tensor, multiprocessing

from adapters.collector.child import run
from adapters.collector.lifeline import child_conditions
from adapters.collector.messages import Built, Failed, Job, Ready, Ticked, packed, unpacked
from application.ports import Grant, Published
from domain.env import ManagerBasedRlEnv
from domain.errors import UnilabError, WorkerError
from domain.replay.slots import SlotPlan, Slots

GRACE_S = 2.0
"""How long a closed collector may take to end by itself."""
_POLL_S = 0.2
_STOPPED_S = 1.0
"""What a look may take longer than asked for, before it is clear that this process stood still."""
_BY_DESCRIPTOR = "file_descriptor"


@dataclass(frozen=True, kw_only=True)
class TimeoutSettings:
    """Which settings a user raises when a wait was too short."""

    start: str = "runtime.start_timeout_s"
    tick: str = "runtime.tick_timeout_s"


@dataclass(frozen=True, kw_only=True)
class _Wait:
    """What is awaited, until when."""

    what: str
    where: str
    """In what the process fails, if it ends instead."""
    seconds: float
    setting: str
    deadline: float


class CollectorProcess:
    """Starts the process and returns at once; ``wait_ready`` tells how that went.

    A program that makes one protects its own start by ``if __name__ == "__main__"``: the process imports it anew.
    ``close`` also runs when the object is garbage and when the interpreter ends.

    Args:
        builder: Builds the environment in the process; a function of a module, or a partial of one.
        plan: Sizes of the slots; the environment has to fit.
        state: Goes on from this state of an earlier environment, with fresh episodes; None starts anew.
        checksums: Publish a checksum of each chunk.
        interrupted: Asked about every 0.2 s in ``wait_ready``, which raises KeyboardInterrupt where it says so.
        timeouts: How the settings behind the waits are called.

    Raises:
        WorkerError: There is not enough shared memory.
    """

    def __init__(
        self,
        builder: Callable[[], ManagerBasedRlEnv],
        plan: SlotPlan,
        *,
        state: Mapping[str, Tensor] | None = None,
        checksums: bool = False,
        interrupted: Callable[[], bool] | None = None,
        timeouts: TimeoutSettings | None = None,
    ) -> None:
        self._state = state
        self._interrupted = interrupted
        self._timeouts = timeouts or TimeoutSettings()
        self._ready = False
        self._granted: Grant | None = None
        with _shared_by_descriptor():
            slots = _shared_slots(plan)
            main = threading.current_thread() is threading.main_thread()
            job = Job(
                builder=builder,
                slots=slots,
                checksums=checksums,
                continues=state is not None,
                # Other threads may end before the process does.
                dies_with_thread=main,
            )
            self._process, self._connection = _start(job)
        self._slots: Slots | None = slots
        # Unlike a finaliser of weakref this one surely runs before multiprocessing waits for its children at exit.
        self._end = Finalize(self, _end, args=(self._process, self._connection), exitpriority=100)

    @property
    def slots(self) -> Slots:
        """Shared host memory, until ``close``. Raises WorkerError after it."""
        return self._open()

    @property
    def pid(self) -> int:
        """The process's number. Raises WorkerError after ``close``."""
        self._open()
        return self._process.pid or 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the environment is built and reset and its first observation is there.

        Raises:
            WorkerError: The process failed or was not ready in time.
            UnilabError: The environment could not be built: the very error.
            KeyboardInterrupt: ``interrupted`` said so.
        """
        self._open()
        if self._ready:
            return
        waiting = _Wait(
            what="the collector was not ready",
            where="while starting",
            seconds=timeout_s,
            setting=self._timeouts.start,
            deadline=time.monotonic() + timeout_s,
        )
        message = self._hear(waiting, self._interrupted)
        if isinstance(message, Built) and self._state is not None:
            self._say(packed(self._state), waiting.where)
            self._state = None
            message = self._hear(waiting, self._interrupted)
        if not isinstance(message, Ready):
            raise _failure(message, waiting.where)
        self._ready = True

    def grant(self, grant: Grant) -> None:
        """Hand over an action and a free chunk slot.

        Raises:
            WorkerError: The process has ended, is not ready, or has not published what was granted before.
        """
        self._open()
        if not self._ready:
            raise WorkerError(f"tick {grant.tick} was granted before the collector was ready")
        if self._granted is not None:
            raise WorkerError(f"tick {grant.tick} was granted before tick {self._granted.tick} was awaited")
        self._say(grant, f"before tick {grant.tick}")
        self._granted = grant

    def wait(self, timeout_s: float) -> Published:
        """Wait for the tick that was granted last.

        Raises:
            WorkerError: The process failed or did not publish in time, or nothing was granted.
            UnilabError: The environment raised it.
        """
        self._open()
        if self._granted is None:
            raise WorkerError("there is no tick to wait for: none was granted")
        where = f"in tick {self._granted.tick}"
        waiting = _Wait(
            what=f"the collector did not finish tick {self._granted.tick}",
            where=where,
            seconds=timeout_s,
            setting=self._timeouts.tick,
            deadline=time.monotonic() + timeout_s,
        )
        message = self._hear(waiting, None)
        if not isinstance(message, Ticked):
            raise _failure(message, where)
        self._granted = None
        return Published(
            header=message.header,
            began=message.began,
            ended=message.ended,
            report=message.report,
            state=None if message.state is None else unpacked(message.state),
        )

    def close(self) -> None:
        """End the process, by force after 2 s, and release the slots; whoever registered them releases them first."""
        self._slots = None
        self._end()

    def _open(self) -> Slots:
        if self._slots is None:
            raise WorkerError("the collector is closed")
        return self._slots

    def _say(self, message: Grant | bytes, where: str) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise _ended(self._process, where) from error

    def _hear(self, waiting: _Wait, interrupted: Callable[[], bool] | None) -> object:
        """Return the next message; a process that has ended is noticed at once."""
        deadline = waiting.deadline
        while True:
            if interrupted is not None and interrupted():
                raise KeyboardInterrupt
            begin = time.monotonic()
            left = max(0.0, deadline - begin)
            span = min(left, _POLL_S)
            # A message may arrive between the looks at pipe and process, so an ended process is asked once more.
            if wait([self._connection, self._process.sentinel], span):
                return self._read(waiting.where)
            stopped = time.monotonic() - begin - span
            if stopped > _STOPPED_S:
                # Both processes were stopped (Ctrl-Z): that time does not count.
                deadline += stopped
            elif span == left:
                raise WorkerError(
                    f"{waiting.what} within {waiting.seconds:g} s: if its environment only needs longer, "
                    f"raise {waiting.setting}"
                )

    def _read(self, where: str) -> object:
        try:
            if self._connection.poll(0):
                message: object = self._connection.recv()
                return message
        except (EOFError, OSError) as error:
            raise _ended(self._process, where) from error
        raise _ended(self._process, where)


@contextmanager
def _shared_by_descriptor() -> Iterator[None]:
    """Share memory without a name in the file system, so that nothing stays behind however the processes end."""
    before = multiprocessing.get_sharing_strategy()
    if _BY_DESCRIPTOR in multiprocessing.get_all_sharing_strategies():
        multiprocessing.set_sharing_strategy(_BY_DESCRIPTOR)
    try:
        yield
    finally:
        multiprocessing.set_sharing_strategy(before)


def _shared_slots(plan: SlotPlan) -> Slots:
    try:
        slots = Slots.allocate(plan, torch.device("cpu"))
        for block in slots.blocks:
            block.share_memory_()
    except RuntimeError as error:
        raise WorkerError(
            f"{plan.host_bytes / 2**20:.1f} MiB of shared memory for {plan.num_envs} envs are not there ({error}): "
            "give /dev/shm more room, or lower train.num_envs"
        ) from error
    return slots


def _start(job: Job) -> tuple[SpawnProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=run, args=(job, theirs), name="collector", daemon=True)
    try:
        with child_conditions():
            process.start()
    except BaseException:
        ours.close()
        if process.pid is not None:
            process.kill()
        raise
    finally:
        # Else this process would itself keep the pipe open, and never see its end.
        theirs.close()
    return process, ours


def _end(process: SpawnProcess, connection: Connection) -> None:
    try:
        # What asks the process to end is the end of the pipe: it is seen while waiting and while sending.
        connection.close()
        process.join(GRACE_S)
    finally:
        process.kill()
        process.join(GRACE_S)
    with suppress(ValueError):
        process.close()


def _ended(process: SpawnProcess, where: str) -> WorkerError:
    """Say how the process has ended."""
    process.join(GRACE_S)
    code = process.exitcode
    if code is None:
        return WorkerError(f"the collector process closed its pipe {where}")
    if code >= 0:
        return WorkerError(f"the collector process ended with exit code {code} {where}")
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ": the system does so when memory runs out" if -code == signal.SIGKILL else ""
    return WorkerError(f"the collector process was ended by {name} {where}{hint}")


def _failure(message: object, where: str) -> UnilabError:
    """Return the child's error: of our own tree as it was, else with its traceback."""
    if not isinstance(message, Failed):
        return WorkerError(f"the collector process said {type(message).__name__} {where}")
    if message.kind is None:
        return WorkerError(f"the collector process failed in {message.place}:\n{message.trace}")
    error = message.kind(message.message)
    error.add_note(f"in the collector process, {message.place}:\n{message.trace}")
    return error
