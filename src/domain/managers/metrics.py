"""Quantities worth watching that are not rewarded; reduced over an episode."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from domain.errors import ConfigurationError, unknown_name
from domain.managers.state import Stateful, finite, put, set_rows
from domain.managers.terms import TermCfg, bind_term, probe, reset_term
from domain.view import EnvView

Reduction = Literal["mean", "sum", "max", "last"]
REDUCTIONS = ("mean", "sum", "max", "last")


@dataclass(frozen=True, kw_only=True)
class MetricsTermCfg(TermCfg):
    """A term returning (num_envs,) float32, and how an episode's values become one number."""

    reduce: Reduction = "mean"


class MetricsManager(Stateful):
    """Evaluates and accumulates all metrics.

    Raises:
        ConfigurationError: An unknown reduction, or a term of the wrong shape or type.
    """

    def __init__(self, cfgs: Mapping[str, MetricsTermCfg], env: EnvView) -> None:
        super().__init__()
        self._env = env
        self._terms = {}
        for name, cfg in cfgs.items():
            path = f"metrics.{name}"
            if cfg.reduce not in REDUCTIONS:
                raise ConfigurationError(f"{path}.reduce: {unknown_name('reduction', cfg.reduce, REDUCTIONS)}")
            self._terms[name] = bind_term(cfg, env, path)
            probe(self._terms[name], path, (env.num_envs,), torch.float32, env)
        self.names = tuple(cfgs)
        is_mean, is_max, self._is_last = (
            torch.tensor([cfg.reduce == kind for cfg in cfgs.values()], dtype=torch.bool, device=env.device)
            for kind in ("mean", "max", "last")
        )
        self._is_mean, self._is_max = is_mean, is_max
        self._start = torch.where(is_max, -torch.inf, 0.0)
        shape = (env.num_envs, len(cfgs))
        self._values = self.keep("values", self._start.repeat(env.num_envs, 1))
        self._counts = self.keep_rows("counts", *shape, device=env.device)
        self.broken = torch.zeros(shape, dtype=torch.bool, device=env.device)
        """Where the last step's value is not finite, (num_envs, terms); the episode's value skips it."""

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return [(f"{name}/term", term) for name, term in self._terms.items()]

    def compute(self) -> None:
        """Take the step's finite values."""
        if not self._terms:
            return
        values, kept = torch.stack([term() for term in self._terms.values()], dim=1), self._values
        new = torch.where(self._is_max, torch.maximum(kept, values), kept + values)
        new = torch.where(self._is_last, values, new)
        counts = finite(values)
        put(kept, counts, new)
        self._counts += counts
        torch.logical_not(counts, out=self.broken)

    def episode_values(self) -> Tensor:
        """Return each metric over the episode so far, (num_envs, terms)."""
        if not self._terms:
            return self._values
        return torch.where(self._is_mean, self._values / self._counts.clamp(min=1.0), self._values)

    def reset(self, mask: Tensor) -> None:
        """Start the rows under ``mask`` anew."""
        self._counts.masked_fill_(mask.unsqueeze(1), 0.0)
        set_rows(self._values, mask, self._start)
        for term in self._terms.values():
            reset_term(term, mask)
