"""Splits the policy's action over action terms and keeps the last three actions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.buffers import DelayBuffer, DelayCfg
from domain.managers.state import Stateful
from domain.managers.terms import TermCfg, bind_term
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class ActionTermCfg(TermCfg):
    """An action term; ``func`` is a subclass of ActionTerm."""

    delay: DelayCfg | None = None
    """How late raw actions take effect; before an episode's first ones have arrived, 0 is applied."""


class ActionTerm:
    """Turns a slice of the action into control targets.

    A subclass sets ``dim`` and writes its columns of ``env.backend.control`` in ``apply``.
    """

    dim: int
    """Columns of the action that the term consumes."""
    target_names: tuple[str, ...] = ()
    """What each column drives, for export and display."""
    low: float | tuple[float, ...] = -1.0
    """Lowest raw action that a bounded policy gives, for all columns or one a column."""
    high: float | tuple[float, ...] = 1.0

    def apply(self, action: Tensor) -> None:
        """Write control targets for ``action``, (num_envs, dim)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to apply an action")


class ActionManager(Stateful):
    """All action terms, in declared order.

    Publishes ``env.action``, ``env.previous_action`` and ``env.action_before_previous``,
    (num_envs, dim), raw.

    Raises:
        ConfigurationError: A term is no ActionTerm, its delay or its range is impossible, or two terms drive one
            target.
    """

    def __init__(self, cfgs: Mapping[str, ActionTermCfg], env: EnvView) -> None:
        super().__init__()
        self.terms: dict[str, ActionTerm] = {}
        self._delays: dict[str, DelayBuffer] = {}
        ranges: list[tuple[float, float]] = []
        for name, cfg in cfgs.items():
            term = bind_term(cfg, env, f"actions.{name}")
            if not isinstance(term, ActionTerm):
                raise ConfigurationError(f"actions.{name}: {cfg.func} is not an action term")
            for other, taken in self.terms.items():
                if twice := set(taken.target_names) & set(term.target_names):
                    raise ConfigurationError(f"actions.{name} and actions.{other} both drive {', '.join(twice)}")
            self.terms[name] = term
            ranges += _ranges(term, f"actions.{name}")
            if cfg.delay is not None:
                self._delays[name] = DelayBuffer(cfg.delay, env.rng, term.dim, f"actions.{name}.delay")
        self.dim = len(ranges)
        self.bounds = tuple(low for low, _ in ranges), tuple(high for _, high in ranges)
        """Lowest and highest raw action of each column, for policies that are bounded; others are not cut to it."""
        self._env = env
        env.action, env.previous_action, env.action_before_previous = (
            self.keep_rows(name, env.num_envs, self.dim, device=env.device)
            for name in ("action", "previous_action", "action_before_previous")
        )

    def children(self) -> list[tuple[str, object]]:
        """Terms and their delay lines."""
        return [*self.terms.items(), *((f"{name}/delay", delay) for name, delay in self._delays.items())]

    def check(self, action: Tensor) -> None:
        """Raise ConfigurationError for an action of another type, shape, dtype or device than a step takes."""
        env = self._env
        if not isinstance(action, Tensor):
            raise ConfigurationError(f"an action is a torch.Tensor, not {type(action).__name__}")
        if action.shape != env.action.shape or action.dtype != torch.float32 or action.device != env.device:
            raise ConfigurationError(
                f"the action is {action.dtype} of shape {tuple(action.shape)} on {action.device}, "
                f"expected torch.float32 of shape {tuple(env.action.shape)} on {env.device}"
            )

    def process(self, action: Tensor) -> None:
        """Take a new action, (num_envs, dim) float32, that passed ``check``, and write the control targets."""
        env = self._env
        env.action_before_previous.copy_(env.previous_action)
        env.previous_action.copy_(env.action)
        env.action.copy_(action)
        start = 0
        for name, term in self.terms.items():
            part = env.action[:, start : start + term.dim]
            start += term.dim
            term.apply(self._delays[name].advance(part) if name in self._delays else part)

    def reset(self, mask: Tensor) -> None:
        """Zero the histories of the rows under ``mask``."""
        env = self._env
        rows = mask.unsqueeze(1)
        for history in (env.action, env.previous_action, env.action_before_previous):
            history.masked_fill_(rows, 0.0)
        for name, delay in self._delays.items():
            delay.backfill(torch.zeros(1, self.terms[name].dim, device=env.device), mask)


def _ranges(term: ActionTerm, path: str) -> list[tuple[float, float]]:
    """Return lowest and highest raw action of each column of a term."""
    low, high = ((float(end),) * term.dim if isinstance(end, int | float) else end for end in (term.low, term.high))
    if not len(low) == len(high) == term.dim:
        raise ConfigurationError(
            f"{path} has {len(low)} lowest and {len(high)} highest actions for {term.dim} columns: give 1 or all"
        )
    ranges = list(zip(low, high, strict=True))
    for column, (bottom, top) in enumerate(ranges):
        if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
            raise ConfigurationError(
                f"{path}: column {column} goes from {bottom} to {top}: give finite bounds, low below high"
            )
    return ranges
