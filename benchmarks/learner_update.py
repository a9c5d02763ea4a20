"""How long one update of an off-policy learner takes, eager, compiled and captured: one JSON line each.

    python benchmarks/learner_update.py --algo flashsac sac td3 --mode eager compiled captured captured+compiled

Each measurement runs in a process of its own, so that ``ready_s`` counts from the start of a process to the end of
its first cycle of updates. An update includes its share of drawing and gathering rows from a ring of 2^20 rows on the
device, done before the cycle that reads them; sizes are those of G1 walking (98 observations, 101 for the critics,
29 actions). Times are medians of rounds by device events, the slowest and fastest round are the spread.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from adapters.triton_kernels.kernels import TritonKernels
from domain.graphs import capture
from domain.learning.config import ExecutionCfg, FlashSacCfg, OffPolicyCfg, SacCfg, Td3Cfg
from domain.learning.flashsac import FlashSacLearner
from domain.learning.learner import Learner, LearnerPlan
from domain.learning.sac import SacLearner
from domain.learning.td3 import Td3Learner
from domain.replay.batch import TransitionBatch
from domain.replay.gather import BatchGather, draw
from domain.replay.layout import RowLayout

NARROW: Literal["bfloat16"] = "bfloat16"
MODES = {
    "eager": (ExecutionCfg(precision=NARROW), False),
    "eager+fused": (ExecutionCfg(precision=NARROW), True),
    "compiled": (ExecutionCfg(precision=NARROW, compile=True), False),
    "captured": (ExecutionCfg(precision=NARROW, graph=True), False),
    "captured+compiled": (ExecutionCfg(precision=NARROW, graph=True, compile=True), False),
    "captured+fused": (ExecutionCfg(precision=NARROW, graph=True), True),
}
"""How updates run, and whether the costly operations are Triton kernels."""
CONFIGS: dict[str, OffPolicyCfg] = {"sac": SacCfg(), "td3": Td3Cfg(), "flashsac": FlashSacCfg()}
PUBLIC_UPDATES_PER_S = {"flashsac": (711, 2048), "sac": (743, 8192)}
"""Of the public unilab 1.5.2 on an H200, compiled and captured, gather included, at this batch size."""
LAYOUT = RowLayout(obs=98, action=29, critic=101)
RING_ROWS = 1 << 20


def build(
    cfg: OffPolicyCfg, batches: tuple[TransitionBatch, TransitionBatch], execution: ExecutionCfg, fused: bool
) -> Learner:
    """Return a learner for 4096 environments."""
    kernels = TritonKernels() if fused else None
    device = batches[0].rows.device
    bounds = (1.0,) * LAYOUT.action
    low = tuple(-bound for bound in bounds)
    plan = LearnerPlan(layout=LAYOUT, num_envs=4096, action_low=low, action_high=bounds, device=device, seed=1)
    if isinstance(cfg, SacCfg):
        return SacLearner(cfg, plan, batches, execution, kernels)
    if isinstance(cfg, Td3Cfg):
        return Td3Learner(cfg, plan, batches, execution, kernels)
    if isinstance(cfg, FlashSacCfg):
        return FlashSacLearner(cfg, plan, batches, execution, kernels)
    raise TypeError(f"no learner for {type(cfg).__name__}")


@dataclass
class Work:
    """A learner, the ring that it learns from and the way from one to the other."""

    cfg: OffPolicyCfg
    learner: Learner
    gather: list["torch.cuda.CUDAGraph"]
    fill: list[TransitionBatch]
    source: BatchGather
    index: Tensor
    size: Tensor
    generator: torch.Generator

    def draw_batch(self, slot: int) -> None:
        """Draw and gather the rows of one cycle."""
        draw(self.generator, self.size, self.index)
        self.source.fill(self.index, self.size, self.fill[slot])

    def cycle(self, slot: int) -> None:
        """Gather a batch and learn from it."""
        if self.gather:
            self.gather[slot].replay()
        else:
            self.draw_batch(slot)
        self.learner.update(slot)


def prepare(cfg: OffPolicyCfg, execution: ExecutionCfg, fused: bool, device: torch.device) -> Work:
    """Fill a ring with plausible rows and build the learner."""
    generator = torch.Generator(device=device)
    generator.manual_seed(1)
    ring = torch.empty(RING_ROWS, LAYOUT.width, device=device).normal_(generator=generator)
    columns = LAYOUT.columns(ring)
    columns.action.tanh_()
    columns.reward.mul_(0.1)
    columns.terminated.copy_((columns.terminated > 2.5).float())
    columns.truncated.zero_()
    size = (cfg.updates_per_step, cfg.batch_size)
    fill = (TransitionBatch(LAYOUT, *size, device), TransitionBatch(LAYOUT, *size, device))
    learner = build(cfg, fill, execution, fused)
    source = BatchGather(ring=ring, layout=LAYOUT, stride=4096, gamma=cfg.gamma, n_step=1)
    index = torch.zeros(size[0] * size[1], dtype=torch.int64, device=device)
    total = torch.tensor(RING_ROWS, device=device)
    work = Work(cfg, learner, [], list(fill), source, index, total, generator)
    if execution.graph:
        for slot in (0, 1):
            work.draw_batch(slot)
        work.gather = [capture(lambda slot=slot: work.draw_batch(slot), generator) for slot in (0, 1)]  # type: ignore[misc]
    return work


def measure(work: Work, started: float, rounds: int) -> dict[str, float]:
    """Time rounds of about a second."""
    work.cycle(0)
    torch.cuda.synchronize()
    ready = time.time() - started
    updates = work.cfg.updates_per_step
    for number in range(20):
        work.cycle(number % 2)
    cycles = max(10, 600 // updates)
    took = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for number in range(cycles):
            work.cycle(number % 2)
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end) / (cycles * updates))
    middle = statistics.median(took)
    return {
        "update_ms": round(middle, 4),
        "update_ms_min": round(min(took), 4),
        "update_ms_max": round(max(took), 4),
        "updates_per_s": round(1000.0 / middle, 1),
        "ready_s": round(ready, 2),
        "memory_mib": round(torch.cuda.max_memory_allocated() / 2**20),
    }


def run(algo: str, mode: str, started: float, options: argparse.Namespace) -> dict[str, object]:
    """Measure one algorithm in one mode, in this process."""
    cfg = CONFIGS[algo]
    if options.batch_size:
        cfg = replace(cfg, batch_size=options.batch_size)
    execution, fused = MODES[mode]
    if options.precision:
        execution = replace(execution, precision=options.precision)
    figures = measure(prepare(cfg, execution, fused, torch.device("cuda", 0)), started, options.rounds)
    public = PUBLIC_UPDATES_PER_S.get(algo)
    ratio = figures["updates_per_s"] / public[0] if public and public[1] == cfg.batch_size else None
    return {
        "benchmark": "learner_update",
        "algo": algo,
        "mode": mode,
        "precision": execution.precision,
        "batch_size": cfg.batch_size,
        "updates_per_cycle": cfg.updates_per_step,
        "policy_frequency": cfg.policy_frequency,
        **figures,
        "of_public_unilab_1.5.2": None if ratio is None else round(ratio, 2),
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
    }


def main() -> None:
    """Run each pair of algorithm and mode in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--mode", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--precision", choices=("float32", "bfloat16"))
    parser.add_argument("--batch-size", type=int, help="rows of an update; the algorithm's default without it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no CUDA device: captured updates exist on NVIDIA and ROCm GPUs only")
    if options.started is not None:
        print(json.dumps(run(options.algo[0], options.mode[0], options.started, options)), flush=True)
        return
    for algo in options.algo:
        for mode in options.mode:
            alone = [sys.executable, *sys.argv, "--algo", algo, "--mode", mode, "--started", str(time.time())]
            subprocess.run(alone, check=True)


if __name__ == "__main__":
    main()
