"""What an environment has logged, as plain numbers that can be shown, written and sent."""

import math

import torch

from application.ports import EnvReport
from domain.env import ManagerBasedRlEnv


def report_of(env: ManagerBasedRlEnv) -> EnvReport:
    """Drain the environment's logs of episodes and faults, and read its curricula."""
    episodes = env.drain_episodes()
    values = dict(zip(episodes.names, episodes.values.tolist(), strict=True))
    metrics = {name: value for name, value in values.items() if not math.isnan(value)}
    curricula = env.curricula.values
    if curricula:
        levels = torch.stack([value.float() for value in curricula.values()]).tolist()
        metrics |= {f"curriculum/{name}": level for name, level in zip(curricula, levels, strict=True)}
    report = env.drain_faults()
    counts, rows, steps = report.counts.tolist(), report.rows.tolist(), report.steps.tolist()
    faults = {
        source: (count, row, step)
        for source, count, row, step in zip(report.sources, counts, rows, steps, strict=True)
        if count
    }
    return EnvReport(metrics=metrics, faults=faults, notice=env.notice())
