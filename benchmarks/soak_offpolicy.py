"""Off-policy training under planted faults, many short runs one after the other: one JSON line at the end.

    PYTHONPATH=. python benchmarks/soak_offpolicy.py --device cpu --minutes 30
    PYTHONPATH=. python benchmarks/soak_offpolicy.py --device cpu --seed 0 --first 17 --episodes 1

Each run ("episode") has the real collector process, with MuJoCo in it, and the real loop, runtime, ring and gather;
the device is CUDA, or two queues over CPU tensors whose work ends late and in any order. Sizes and a fault are drawn
from the seed and the episode's number, so any episode can be run again alone. A fault has one right ending (class and
words of the error, or a good end); after each tick the whole ring, the new batch and the actions are compared with what
world and schedule say they must be; after each run the trace is checked, the checkpoint loaded, and children, files,
threads and shared memory counted. The exit code is 1 if anything was wrong. Needs Linux.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# The collector's process imports this file too: what only the parent needs is imported where it is used.

LIMITS_MIB = {"rss_mib": 300.0, "device_mib": 16.0}
"""Growth over a soak that counts as a leak."""
WARM_UP = (("none", False), ("killed_and_resumed", True), ("keyboard_interrupt", True))
"""Faults, with SAC or without, that are had before leaks are counted."""
_SHOWN = 20


@dataclass(kw_only=True)
class Tally:
    """What all episodes came to."""

    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    ticks: int = 0
    hangs: int = 0
    leaks: int = 0
    excused: int = 0
    longest_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def problem(self, where: str, text: str) -> None:
        """Note and show what is wrong."""
        self.problems.append(f"{where}: {text}")
        print(self.problems[-1], file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of the command line."""

    device: str
    minutes: float
    first: int
    episodes: int | None
    seed: int
    fault: str | None
    verbose: bool = False


def soak(options: Options) -> dict[str, object]:
    """Run episodes until time or number is over; return what the JSON line holds."""
    import torch

    from benchmarks.soak.leaks import Holdings

    # cuBLAS keeps 32 MiB for each stream that ever multiplied, and every run here has streams of its own.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    torch.set_num_threads(1)
    device = torch.device("cuda", 0) if options.device == "cuda" else torch.device("cpu")
    start, tally = time.monotonic(), Tally()
    folder = Path(tempfile.mkdtemp(prefix="soak_"))
    try:
        warm_up(options, device, folder, tally)
        before, device_before = Holdings.now(), device_mib(device)
        number = options.first
        while options.episodes is None or number < options.first + options.episodes:
            if time.monotonic() - start > 60.0 * options.minutes:
                break
            run_one(options, device, folder, tally, number)
            number += 1
        after, device_after = Holdings.now(), device_mib(device)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for leak in after.leaks(before):
        tally.leaks += 1
        tally.problem("whole soak", leak)
    memory = {"rss_mib": [before.rss_mib, after.rss_mib], "device_mib": [device_before, device_after]}
    for name, (first, last) in memory.items():
        if last - first > LIMITS_MIB[name]:
            tally.leaks += 1
            tally.problem("whole soak", f"{name} grew from {first} to {last}")
    held = {"files": [before.files, after.files], "threads": [before.threads, after.threads]}
    return {
        "benchmark": "soak_offpolicy",
        "passed": not tally.problems,
        "episodes": sum(tally.faults.values()),
        "faults": dict(sorted(tally.faults.items())),
        "ticks": tally.ticks,
        "rows_verified": dict(tally.checked),
        "wrong": dict(tally.wrong),
        "wrong_rows": sum(tally.wrong.values()),
        "hangs": tally.hangs,
        "leaks": tally.leaks,
        **held,
        **memory,
        "excused": tally.excused,
        "longest_s": round(tally.longest_s, 1),
        "problems": tally.problems[:_SHOWN],
        "seed": options.seed,
        "minutes": round((time.monotonic() - start) / 60.0, 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, fake transfer",
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def device_mib(device: "torch.device") -> float:
    """Return what tensors take of a GPU; 0 without one."""
    import torch

    return round(torch.cuda.memory_allocated(device) / 2**20, 1) if device.type == "cuda" else 0.0


def warm_up(options: Options, device: "torch.device", folder: Path, tally: Tally) -> None:
    """Let everything that is loaded once be loaded."""
    from benchmarks.soak.episodes import Fault, draw_episode
    from benchmarks.soak.running import Runner

    for number, (fault, sac) in enumerate(WARM_UP):
        episode = replace(draw_episode(options.seed, number, Fault(fault)), sac=sac)
        for outcome in Runner(device, folder / f"warm_up_{number}").run(episode):
            for text in outcome.problems:
                tally.problem(f"warm-up, {fault}, sac {sac}", text)


def run_one(options: Options, device: "torch.device", folder: Path, tally: Tally, number: int) -> None:
    """Run one episode, count it, and look for what it leaves."""
    from benchmarks.soak.episodes import Fault, draw_episode
    from benchmarks.soak.leaks import Holdings, settled
    from benchmarks.soak.running import Runner
    from benchmarks.soak.victim import kill_parent

    before = Holdings.now()
    episode = draw_episode(options.seed, number, None if options.fault is None else Fault(options.fault))
    if episode.fault is Fault.PARENT:
        outcomes = [kill_parent(episode, device, options.seed, folder)]
    else:
        outcomes = Runner(device, folder).run(episode)
    where = (
        f"--seed {options.seed} --first {number} ({episode.fault}, {episode.world.num_envs} envs, sac {episode.sac})"
    )
    tally.faults[episode.fault] += 1
    for outcome in outcomes:
        tally.checked.update(outcome.checked)
        tally.wrong.update(outcome.wrong)
        tally.ticks += outcome.ticks
        tally.hangs += outcome.hung
        tally.excused += bool(outcome.excused)
        tally.longest_s = max(tally.longest_s, outcome.seconds)
        for text in outcome.problems:
            tally.problem(where, text)
    outcomes.clear()
    for leak in settled(before).leaks(before):
        tally.leaks += 1
        tally.problem(where, leak)
    shutil.rmtree(folder / f"episode_{number}", ignore_errors=True)
    if options.verbose:
        print(f"{number} {episode.fault} {tally.ticks} ticks so far", file=sys.stderr, flush=True)


def main() -> int:
    """Soak and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first episode")
    parser.add_argument("--episodes", type=int, help="at most so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault", help="always this one")
    parser.add_argument("--verbose", action="store_true", help="tell of each episode")
    parser.add_argument("--victim", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.victim is not None:
        from benchmarks.soak.victim import be_victim

        be_victim(given.device, given.seed, given.victim)
        return 1
    del given.victim
    # A shell that starts this in the background has it ignore Ctrl-C, which is one of the faults.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    line = soak(Options(**vars(given)))
    print(json.dumps(line), flush=True)
    return 0 if line["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
