"""Why an episode ends: failures and time limits, kept apart."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.managers.state import Stateful
from domain.managers.terms import TermCfg, bind_term, probe, reset_term
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class TerminationTermCfg(TermCfg):
    """A term returning (num_envs,) bool; ``time_out`` makes it a truncation."""

    time_out: bool = False


class TerminationManager(Stateful):
    """Evaluates all terms into ``env.terminated`` and ``env.truncated``.

    Raises:
        ConfigurationError: A term returns anything but (num_envs,) bool.
    """

    def __init__(self, cfgs: Mapping[str, TerminationTermCfg], env: EnvView) -> None:
        super().__init__()
        self._env = env
        self._terms = {}
        for name, cfg in cfgs.items():
            self._terms[name] = bind_term(cfg, env, f"terminations.{name}")
            probe(self._terms[name], f"terminations.{name}", (env.num_envs,), torch.bool, env)
        self.names = tuple(cfgs)
        self._time_outs = [cfg.time_out for cfg in cfgs.values()]
        self.fired = self.keep_rows("fired", env.num_envs, len(cfgs), device=env.device, dtype=torch.bool)
        """Which terms fired in the last step, (num_envs, terms)."""

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return list(self._terms.items())

    def compute(self) -> None:
        """Refresh ``env.terminated`` and ``env.truncated``."""
        ends = [term() for term in self._terms.values()]
        if ends:
            torch.stack(ends, dim=1, out=self.fired)
        for flag, is_time_out in ((self._env.terminated, False), (self._env.truncated, True)):
            parts = [end for end, time_out in zip(ends, self._time_outs, strict=True) if time_out == is_time_out]
            flag.copy_(functools.reduce(torch.logical_or, parts)) if parts else flag.zero_()

    def reset(self, mask: Tensor) -> None:
        """Clear the flags of the rows under ``mask``, and the state of class terms; ``fired`` stays for the logs."""
        self._env.terminated.masked_fill_(mask, False)
        self._env.truncated.masked_fill_(mask, False)
        for term in self._terms.values():
            reset_term(term, mask)
