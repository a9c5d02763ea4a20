"""A whole run in a process of its own, which is killed."""

import os
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO

import torch

from benchmarks.soak.episodes import Episode, Fault, draw_episode
from benchmarks.soak.leaks import session_after, shared_names
from benchmarks.soak.running import START_S, Outcome, Runner, bounded

_GONE_S = 10.0


def be_victim(device: str, seed: int, number: int) -> None:
    """Run an episode without an end, and print the collector's number and every tick."""
    torch.set_num_threads(1)
    endless = replace(draw_episode(seed, number, Fault.PARENT), iterations=1 << 40)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(torch.device(device, 0) if device == "cuda" else torch.device(device), Path(folder))
        runner.told = lambda text: print(text, flush=True)
        runner.run(endless)


def kill_parent(episode: Episode, device: torch.device, seed: int, folder: Path) -> Outcome:
    """Start a victim, kill it while it starts, runs, or waits for a step that hangs, and look at what it leaves."""
    outcome = Outcome()
    # A tick is told when it begins, and then waits for the step of the tick before, which is counted from 1.
    last = episode.world.hang_step or random.Random(episode.number).choice((0, episode.tick))
    own = [sys.executable, "-m", "benchmarks.soak_offpolicy", "--victim", str(episode.number), "--seed", str(seed)]
    with tempfile.TemporaryFile("w+") as errors, bounded(3 * START_S):
        victim = subprocess.Popen(
            [*own, "--device", device.type],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
            # What it does not come to remove goes with the soak's own folder.
            env={**os.environ, "TMPDIR": str(folder)},
        )
        try:
            outcome.pid = _follow(victim.stdout, last)
        finally:
            victim.kill()
            victim.wait()
            if victim.stdout is not None:
                victim.stdout.close()
        outcome.ticks = last
        if outcome.pid < 0:
            errors.seek(0)
            outcome.problems.append(f"the victim did not get far: {errors.read()[-2000:]}")
        if living := session_after(victim.pid, _GONE_S):
            outcome.problems.append(f"of the killed parent's session live on: {living}")
        outcome.problems += [f"in shared memory: {name}" for name in shared_names([victim.pid, outcome.pid])]
    return outcome


def _follow(lines: IO[str] | None, last: int) -> int:
    """Read until the collector's number, or until a tick, is told; return the number, -1 where that never comes."""
    pid = -1
    for line in lines or ():
        word, _, number = line.partition(" ")
        if word == "collector":
            pid = int(number)
        if pid >= 0 and (last == 0 or (word == "tick" and int(number) >= last)):
            return pid
    return -1
