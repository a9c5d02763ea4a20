"""Events change the world: at start-up, at resets, at intervals or every step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from domain.errors import ConfigurationError, unknown_name
from domain.managers.state import Stateful, put, set_rows
from domain.managers.terms import TermCfg, bind_term, check_seconds, parse_seconds
from domain.view import EnvView

EventMode = Literal["startup", "reset", "interval", "step"]
MODES = ("startup", "reset", "interval", "step")


@dataclass(frozen=True, kw_only=True)
class EventTermCfg(TermCfg):
    """An event term, called with a (num_envs,) bool mask of the rows it may change."""

    mode: EventMode
    interval_s: tuple[float, float] | None = None
    """Lowest and highest time between two firings, s; for mode interval."""
    is_global_time: bool = False
    """One timer for all rows, instead of one a row that starts anew at the row's reset."""
    min_steps_between_resets: int = 0
    """For mode reset: rows that fired fewer control steps ago are left alone."""

    def check(self, path: str) -> None:
        """Raise ConfigurationError for a mode or setting that cannot work, or that the mode does not use."""
        if self.mode not in MODES:
            raise ConfigurationError(f"{path}.mode: {unknown_name('mode', self.mode, MODES)}")
        allowed = getattr(self.func, "modes", MODES)
        if self.mode not in allowed:
            raise ConfigurationError(f"{path} cannot run in mode {self.mode}: use {' or '.join(allowed)}")
        if self.mode == "interval" and self.interval_s is None:
            raise ConfigurationError(f"{path} has mode interval: give interval_s, the seconds between two firings")
        if self.mode != "interval" and (self.interval_s is not None or self.is_global_time):
            raise ConfigurationError(f"{path}: interval_s and is_global_time are for mode interval, not {self.mode}")
        if self.min_steps_between_resets < 0 or (self.mode != "reset" and self.min_steps_between_resets):
            raise ConfigurationError(f"{path}.min_steps_between_resets is a count of at least 0, for mode reset")
        if self.interval_s is not None:
            check_seconds(self.interval_s, f"{path}.interval_s")


class _Interval(Stateful):
    """A term with its timer."""

    def __init__(self, term: Callable[[Tensor], None], cfg: EventTermCfg, env: EnvView, path: str) -> None:
        super().__init__()
        self.term = term
        self._span = parse_seconds(cfg.interval_s, f"{path}.interval_s", env)
        self._backend = env.backend
        self._is_global = cfg.is_global_time
        self._draws = (env.rng.reserve(1), env.rng.reserve(1))
        self._time_left = self.keep_rows("time_left", env.num_envs, device=env.device)
        self._dt = env.step_dt

    def children(self) -> list[tuple[str, object]]:
        return [("term", self.term)]

    def start(self) -> None:
        self._time_left.copy_(self._next(after_reset=True))

    def compute(self, live: Tensor) -> None:
        self._time_left -= self._dt
        # Half a step of tolerance, because the timer is a float32 sum.
        due = self._time_left <= 0.5 * self._dt
        set_rows(self._time_left, due, self._next(after_reset=False))
        rows = due & live
        if not self._backend.skips(rows):
            self.term(rows)

    def reset(self, mask: Tensor) -> None:
        if not self._is_global:
            set_rows(self._time_left, mask, self._next(after_reset=True))

    def _next(self, *, after_reset: bool) -> Tensor:
        seconds = self._draws[after_reset].between(self._span[0], self._span[1])[:, 0]
        return seconds[:1].expand_as(seconds) if self._is_global else seconds


class EventManager(Stateful):
    """All event terms, grouped by mode.

    Raises:
        ConfigurationError: An unknown mode, a mode that the term does not support, a missing or
            impossible interval, or a setting that the mode does not use.
    """

    def __init__(self, cfgs: Mapping[str, EventTermCfg], env: EnvView) -> None:
        super().__init__()
        self._env = env
        self._terms: dict[str, Callable[[Tensor], None]] = {}
        self._cfgs = dict(cfgs)
        self._intervals: dict[str, _Interval] = {}
        self._last_fired: dict[str, Tensor] = {}
        for name, cfg in cfgs.items():
            path = f"events.{name}"
            cfg.check(path)
            self._terms[name] = bind_term(cfg, env, path)
            if cfg.mode == "interval":
                self._intervals[name] = _Interval(self._terms[name], cfg, env, path)
            if cfg.min_steps_between_resets:
                long_ago = torch.full_like(env.episode_length, -cfg.min_steps_between_resets)
                self._last_fired[name] = self.keep(f"last_fired/{name}", long_ago)

    @property
    def acts_in_step(self) -> bool:
        """Whether any term may write between two resets."""
        return any(cfg.mode in ("interval", "step") for cfg in self._cfgs.values())

    def children(self) -> list[tuple[str, object]]:
        """Terms and timers."""
        timers = [(f"{name}/timer", interval) for name, interval in self._intervals.items()]
        return [*((n, t) for n, t in self._terms.items() if n not in self._intervals), *timers]

    def startup(self, rows: Tensor) -> None:
        """Run the start-up terms for all rows and start the timers; once."""
        self._run("startup", rows)
        for interval in self._intervals.values():
            interval.start()

    def compute(self, live: Tensor) -> None:
        """Run step terms, then the interval terms that are due, for the rows under ``live``."""
        self._run("step", live)
        for interval in self._intervals.values():
            interval.compute(live)

    def reset(self, mask: Tensor) -> None:
        """Run the reset terms for the rows under ``mask`` and restart their timers."""
        for name, term in self._of_mode("reset"):
            rows = mask
            if name in self._last_fired:
                last = self._last_fired[name]
                rows = mask & (self._env.step_count - last >= self._cfgs[name].min_steps_between_resets)
                put(last, rows, self._env.step_count)
            term(rows)
        for interval in self._intervals.values():
            interval.reset(mask)

    def _run(self, mode: EventMode, rows: Tensor) -> None:
        for _, term in self._of_mode(mode):
            term(rows)

    def _of_mode(self, mode: EventMode) -> list[tuple[str, Callable[[Tensor], None]]]:
        return [(name, term) for name, term in self._terms.items() if self._cfgs[name].mode == mode]
