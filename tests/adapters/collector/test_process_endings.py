"""How a collector ends: closed in every state, by Ctrl-C never, with its parent always."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from adapters.collector.process import CollectorProcess
from application.ports import Grant
from domain.errors import WorkerError
from tests.support.collector_envs import PLAN, counting, troubled
from tests.support.processes import family, lives, living_after, shared_files

ROOT = Path(__file__).parents[3]
PATIENT = 60.0
GONE_S = 5.0


class Parent:
    """A program with a collector; see ``tests.support.collector_parent``."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.collector_parent", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "TMPDIR": str(folder)},
            start_new_session=True,
        )
        self.collector = int(self._hear())
        self.pids = family(self._process.pid)

    def do(self, line: str) -> None:
        """Have one line done."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        assert self._hear() == line

    def ctrl_c(self) -> None:
        """Interrupt the program and all that it has started, as a terminal does."""
        os.killpg(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """End the program without a chance to clean up."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def parent(folder: Path, *arguments: str) -> Iterator[Parent]:
    """Start a program, and end it at the latest afterwards."""
    made = Parent(folder, *arguments)
    try:
        yield made
    finally:
        made.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory has no folder to look into")
def test_a_killed_parent_leaves_nothing_and_the_next_starts_five_times(tmp_path: Path) -> None:
    starting: tuple[str, ...] = ()
    hanging = ("ready", "tick", "grant")
    # A thread's end must not end its collector, so the kernel is not asked there and only the lifeline works; where no
    # other thread gets a turn, only the kernel does.
    rounds = (
        (starting, ["sleep"]),
        (hanging, ["sleep", "thread"]),
        (starting, ["sleep", "thread"]),
        (hanging, ["freeze"]),
        (starting, ["sleep"]),
    )
    for lines, arguments in rounds:
        with parent(tmp_path, *arguments) as program:
            for line in lines:
                program.do(line)
            assert lives(program.collector)

        assert living_after(program.pids, GONE_S) == []
        assert shared_files(program.pids) == []
        assert list(tmp_path.iterdir()) == []


def test_ctrl_c_does_not_reach_the_collector_in_any_phase(tmp_path: Path) -> None:
    with parent(tmp_path, "sleep") as program:
        for line in ("ready", "tick", "grant"):
            program.ctrl_c()
            os.kill(program.collector, signal.SIGTERM)
            program.do(line)
        program.ctrl_c()
        time.sleep(0.2)

        assert lives(program.collector)


def test_close_ends_it_while_it_starts() -> None:
    collector = CollectorProcess(counting, PLAN)
    pid = collector.pid

    collector.close()

    assert not lives(pid)


def test_close_ends_it_within_seconds_while_a_step_hangs() -> None:
    collector = CollectorProcess(partial(troubled, 1, "sleep", 600.0), PLAN)
    collector.wait_ready(PATIENT)
    collector.grant(Grant(tick=0, slot=0, policy_version=0))
    pid = collector.pid
    began = time.monotonic()

    collector.close()

    assert not lives(pid)
    assert time.monotonic() - began < GONE_S


def test_one_that_is_dropped_is_ended() -> None:
    collector = CollectorProcess(counting, PLAN)
    pid = collector.pid

    del collector
    gc.collect()

    assert not lives(pid)


def test_one_that_is_killed_while_it_starts_says_so_and_can_be_closed() -> None:
    collector = CollectorProcess(counting, PLAN)
    os.kill(collector.pid, signal.SIGKILL)

    with pytest.raises(WorkerError, match="was ended by SIGKILL while starting"):
        collector.wait_ready(PATIENT)
    collector.close()


def test_a_program_that_forgets_to_close_still_ends(tmp_path: Path) -> None:
    text = (
        "from adapters.collector.process import CollectorProcess\n"
        "from tests.support.collector_envs import PLAN, counting\n"
        "if __name__ == '__main__':\n"
        "    kept = CollectorProcess(counting, PLAN)\n"
        "    kept.wait_ready(60.0)\n"
    )
    file = tmp_path / "forgets.py"
    file.write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}

    done = subprocess.run([sys.executable, str(file)], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
