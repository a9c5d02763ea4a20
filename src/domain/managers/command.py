"""Commands: what the policy is asked to do, redrawn by timers and at resets."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful, put
from domain.managers.terms import TermCfg, bind_term, parse_seconds
from domain.rng import Draw
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class CommandTermCfg(TermCfg):
    """A command term; ``func`` is a subclass of CommandTerm."""

    resampling_time_s: tuple[float, float] | None
    """Lowest and highest time until the next draw, s; None draws at resets alone."""


class CommandTerm(Stateful):
    """One command, ``value`` (num_envs, dim), whose storage never moves.

    A subclass says how many random numbers a draw takes, and fills the rows under a mask from them.
    """

    value: Tensor
    draw_width: int = 0
    timed: bool = True
    """Whether a timer may redraw it within an episode."""

    def __init__(self, env: EnvView, dim: int) -> None:
        super().__init__()
        self.env = env
        self.value = self.keep_rows("value", env.num_envs, dim, device=env.device)
        self.metrics: dict[str, Tensor] = {}
        """Per-row sums over the episode's steps, (num_envs,); zeroed at the row's reset, logged as means."""

    def metric(self, name: str) -> Tensor:
        """Register and return a per-row metric sum."""
        self.metrics[name] = self.keep_rows(f"metric/{name}", self.env.num_envs, device=self.env.device)
        return self.metrics[name]

    def advance(self) -> None:
        """Move clocks by one control step, before terminations and rewards; nothing by default."""

    def resample(self, mask: Tensor, draw: Draw) -> None:
        """Draw new values for the rows under ``mask``; ``draw`` holds ``draw_width`` columns."""

    def measure(self) -> None:
        """Add the finished step to the metrics, before anything is redrawn."""

    def update(self, live: Tensor) -> None:
        """Follow the state (e.g. heading control) once a step; rows not in ``live`` are done."""


class CommandManager(Stateful):
    """All command terms; publishes each one's ``value`` in ``env.commands``.

    Raises:
        ConfigurationError: A term is no CommandTerm, its resampling range is empty, or it is not to have one.
    """

    def __init__(self, cfgs: Mapping[str, CommandTermCfg], env: EnvView) -> None:
        super().__init__()
        self._backend = env.backend
        self._dt = env.step_dt
        self.terms: dict[str, CommandTerm] = {}
        self._spans: list[Tensor] = []
        self._timed: list[tuple[CommandTerm, Draw]] = []
        """Terms that a timer redraws, with the numbers for it."""
        self._draws: list[Draw] = []
        for name, cfg in cfgs.items():
            path = f"commands.{name}"
            term = bind_term(cfg, env, path)
            if not isinstance(term, CommandTerm):
                raise ConfigurationError(f"{path}: {cfg.func} is not a command term")
            self.terms[name] = term
            if cfg.resampling_time_s is not None:
                if not term.timed:
                    raise ConfigurationError(
                        f"{path}.resampling_time_s: this command is drawn at resets, set it to null"
                    )
                self._spans.append(parse_seconds(cfg.resampling_time_s, f"{path}.resampling_time_s", env))
                self._timed.append((term, env.rng.reserve(term.draw_width)))
            self._draws.append(env.rng.reserve(term.draw_width))
            env.commands[name], env.command_terms[name] = term.value, term
        timers = len(self._timed)
        self._timer_draws = (env.rng.reserve(timers), env.rng.reserve(timers))
        self._time_left = self.keep_rows("time_left", env.num_envs, timers, device=env.device)
        self._steps = self.keep_rows("steps", env.num_envs, device=env.device)

    def children(self) -> list[tuple[str, object]]:
        """Terms."""
        return list(self.terms.items())

    def advance(self) -> None:
        """Move all clocks by one control step."""
        for term in self.terms.values():
            term.advance()

    def compute(self, live: Tensor) -> None:
        """Measure, run timers, redraw what is due and update, for the rows under ``live``."""
        if not self.terms:
            return
        self._steps += 1.0
        for term in self.terms.values():
            term.measure()
        if self._timed:
            self._time_left -= self._dt
            # Half a step of tolerance, because the timer is a float32 sum.
            due = (self._time_left <= 0.5 * self._dt) & live.unsqueeze(1)
            if not self._backend.skips(due):
                self._start_timers(due, self._timer_draws[0])
                for i, (term, draw) in enumerate(self._timed):
                    term.resample(due[:, i], draw)
        for term in self.terms.values():
            term.update(live)

    def reset(self, mask: Tensor) -> None:
        """Draw new commands and timers for the rows under ``mask`` and zero their metrics."""
        if not self.terms:
            return
        self._steps.masked_fill_(mask, 0.0)
        for term in self.terms.values():
            for value in term.metrics.values():
                value.masked_fill_(mask, 0.0)
        if self._timed:
            self._start_timers(mask.unsqueeze(1), self._timer_draws[1])
        for term, draw in zip(self.terms.values(), self._draws, strict=True):
            term.resample(mask, draw)

    def metrics(self) -> dict[str, Tensor]:
        """Return every metric's mean over the episode so far, (num_envs,), as ``command/metric``."""
        steps = self._steps.clamp(min=1.0)
        return {f"{name}/{m}": value / steps for name, term in self.terms.items() for m, value in term.metrics.items()}

    def _start_timers(self, due: Tensor, draw: Draw) -> None:
        """Draw new times for the timers that are ``due``, (num_envs, timers or 1) bool."""
        low, high = torch.stack(self._spans, dim=1)
        put(self._time_left, due, draw.between(low, high))
