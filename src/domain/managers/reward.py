"""The weighted sum of reward terms, and each term's sum over the episode."""

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.managers.state import Stateful
from domain.managers.terms import Bounds, TermCfg, bind_term, check_params, parse_numbers, probe, reset_term
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class RewardTermCfg(TermCfg):
    """A term returning (num_envs,) float32, and its weight."""

    weight: float


class RewardManager(Stateful):
    """Evaluates every term whose weight can be other than zero.

    Args:
        cfgs: Terms by name.
        env: What the terms read.
        scale_by_dt: Whether a step's reward is multiplied by the control step, s.
        tuned: Paths that a curriculum may write; such a term stays although its weight is 0.

    Raises:
        ConfigurationError: A term, even one that is dropped, cannot work, or returns anything but
            (num_envs,) float32.
    """

    def __init__(
        self, cfgs: Mapping[str, RewardTermCfg], env: EnvView, *, scale_by_dt: bool = True, tuned: Collection[str] = ()
    ) -> None:
        super().__init__()
        for name, cfg in cfgs.items():
            Bounds().check(cfg.weight, f"rewards.{name}.weight")
            check_params(cfg.func, cfg.params, f"rewards.{name}")
        self._env = env
        self._scale = env.step_dt if scale_by_dt else 1.0
        kept = {n: c for n, c in cfgs.items() if c.weight != 0.0 or f"rewards.{n}.weight" in tuned}
        self.dropped = tuple(name for name in cfgs if name not in kept)
        self.weights = torch.tensor([cfg.weight for cfg in kept.values()], dtype=torch.float32, device=env.device)
        self._terms = {}
        parse = functools.partial(parse_numbers, device=env.device)
        for i, (name, cfg) in enumerate(kept.items()):
            path = f"rewards.{name}"
            self._terms[name] = bind_term(cfg, env, path)
            probe(self._terms[name], path, (env.num_envs,), torch.float32, env)
            env.publish_tunable(f"{path}.weight", self.weights[i], parse)
        self.names = tuple(kept)
        self.weighted = self.keep_rows("weighted", env.num_envs, len(kept), device=env.device)
        """Last step's weight times value, without dt, (num_envs, terms)."""
        self.episode_sums = self.keep_rows("episode_sums", env.num_envs, len(kept), device=env.device)
        """Weight times value times dt over the episode so far, (num_envs, terms)."""

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return list(self._terms.items())

    def compute(self) -> Tensor:
        """Return the step's reward, (num_envs,), not yet freed of non-finite rows."""
        if not self._terms:
            return torch.zeros(self._env.num_envs, device=self._env.device)
        values = torch.stack([term() for term in self._terms.values()], dim=1)
        torch.mul(values, self.weights, out=self.weighted)
        return self.weighted.sum(dim=1) * self._scale

    def void(self, rows: Tensor) -> None:
        """Make the step's weighted values 0 in the rows under ``rows``: they broke."""
        self.weighted.masked_fill_(rows.unsqueeze(1), 0.0)

    def accumulate(self) -> None:
        """Add the step to the episode sums."""
        self.episode_sums.add_(self.weighted, alpha=self._scale)

    def reset(self, mask: Tensor) -> None:
        """Zero the episode sums of the rows under ``mask``, and their terms' state."""
        self.episode_sums.masked_fill_(mask.unsqueeze(1), 0.0)
        for term in self._terms.values():
            reset_term(term, mask)
