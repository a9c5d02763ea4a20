"""Quantities worth watching that are not rewarded; reduced over an episode."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from domain.errors import ConfigurationError, unknown_name
from domain.managers.reward import reset_term
from domain.managers.state import Stateful, set_rows
from domain.managers.terms import TermCfg, bind_term, probe
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
        self._reduce: dict[str, Reduction] = {}
        self._values: dict[str, Tensor] = {}
        for name, cfg in cfgs.items():
            path = f"metrics.{name}"
            if cfg.reduce not in REDUCTIONS:
                raise ConfigurationError(f"{path}.reduce: {unknown_name('reduction', cfg.reduce, REDUCTIONS)}")
            self._terms[name] = bind_term(cfg, env, path)
            probe(self._terms[name], path, (env.num_envs,), torch.float32, env)
            self._reduce[name] = cfg.reduce
            start = torch.full((env.num_envs,), self._start(name), device=env.device)
            self._values[name] = self.keep(name, start)
        self._steps = self.keep_rows("steps", env.num_envs, device=env.device)

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return [(f"{name}/term", term) for name, term in self._terms.items()]

    def compute(self, invalid: Tensor) -> None:
        """Take the step's values of all rows but those under ``invalid`` or not finite."""
        self._steps += 1.0
        for name, term in self._terms.items():
            value, kept = term(), self._values[name]
            if self._reduce[name] == "max":
                new = torch.maximum(kept, value)
            else:
                new = value if self._reduce[name] == "last" else kept + value
            set_rows(kept, ~invalid & torch.isfinite(value), new)

    def episode_values(self) -> dict[str, Tensor]:
        """Return each metric over the episode so far, (num_envs,)."""
        steps = self._steps.clamp(min=1.0)
        return {name: v / steps if self._reduce[name] == "mean" else v for name, v in self._values.items()}

    def reset(self, mask: Tensor) -> None:
        """Start the rows under ``mask`` anew."""
        self._steps.masked_fill_(mask, 0.0)
        for name, term in self._terms.items():
            self._values[name].masked_fill_(mask, self._start(name))
            reset_term(term, mask)

    def _start(self, name: str) -> float:
        return -torch.inf if self._reduce[name] == "max" else 0.0
