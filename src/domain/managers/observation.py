"""Observation groups: compute, noise, clip, scale, delay, history, concatenate."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.buffers import CircularBuffer, DelayBuffer, DelayCfg
from domain.managers.noise import NoiseCfg, NoiseModel
from domain.managers.state import Stateful
from domain.managers.terms import Ordered, TermCfg, bind_term, parse_numbers, probe, reset_term
from domain.view import EnvView


@dataclass(frozen=True, kw_only=True)
class ObservationTermCfg(TermCfg):
    """One term, (num_envs, width), and what happens to it on its way into a group.

    A class term is called once a step and again after a commit, so only its ``reset(mask)`` may move its state.
    """

    noise: NoiseCfg | None = None
    clip: tuple[float, float] | None = None
    scale: float | tuple[float, ...] = 1.0
    delay: DelayCfg | None = None
    history_length: int = 1
    """Frames shown, oldest first; 1 shows the present only."""


@dataclass(frozen=True, kw_only=True)
class ObservationGroupCfg:
    """Terms that are concatenated in declared order."""

    terms: Mapping[str, ObservationTermCfg] = field(default_factory=dict)
    enable_corruption: bool = True
    """False leaves the noise out."""


class _Channel(Stateful):
    """One term's way from its raw value into its group."""

    def __init__(self, cfg: ObservationTermCfg, env: EnvView, width: int, path: str, corrupt: bool) -> None:
        super().__init__()
        self._noise = NoiseModel(cfg.noise, env, width, f"{path}.noise") if cfg.noise and corrupt else None
        self._clip = cfg.clip
        if cfg.clip is not None:
            Ordered().check(cfg.clip, f"{path}.clip")
        if cfg.noise is not None:
            cfg.noise.check(f"{path}.noise")
        parse = functools.partial(parse_numbers, device=env.device)
        scale = parse(cfg.scale, f"{path}.scale")
        if scale.numel() not in (1, width):
            raise ConfigurationError(f"{path}.scale has {scale.numel()} columns, the term has {width}")
        self._scale: Tensor | None = None
        if cfg.scale != 1.0:
            self._scale = scale
            env.publish_tunable(f"{path}.scale", scale, parse)
        self._delay = DelayBuffer(cfg.delay, env.rng, width, f"{path}.delay") if cfg.delay else None
        if cfg.history_length < 1:
            raise ConfigurationError(f"{path}.history_length is {cfg.history_length}: it is at least 1")
        self._history = (
            CircularBuffer(cfg.history_length, env.num_envs, width, env.device) if cfg.history_length > 1 else None
        )
        self.width = width * cfg.history_length

    def children(self) -> list[tuple[str, object]]:
        return [("noise", self._noise), ("delay", self._delay), ("history", self._history)]

    def advance(self, raw: Tensor) -> Tensor:
        frame = self._frame(raw, after_reset=False)
        if self._delay is not None:
            frame = self._delay.advance(frame)
        if self._history is None:
            return frame
        self._history.append(frame)
        return self._history.frames().flatten(1)

    def renew(self, raw: Tensor, written: Tensor, reset: Tensor) -> Tensor:
        if self._noise is not None:
            self._noise.reset(reset)
        frame = self._frame(raw, after_reset=True)
        if self._delay is not None:
            self._delay.replace_newest(frame, written)
            self._delay.backfill(frame, reset)
            frame = self._delay.peek()
        if self._history is None:
            return frame
        self._history.replace_newest(frame, written)
        self._history.backfill(frame, reset)
        return self._history.frames().flatten(1)

    def _frame(self, raw: Tensor, *, after_reset: bool) -> Tensor:
        frame = raw if self._noise is None else self._noise(raw, after_reset=after_reset)
        if self._clip is not None:
            frame = frame.clamp(*self._clip)
        return frame if self._scale is None else frame * self._scale


class ObservationManager(Stateful):
    """All groups. A term that several groups share without state is evaluated once.

    Histories and delays advance in ``compute``, once a step; ``current`` may be read any number of
    times. ``widths`` and ``layout`` describe the groups' columns.

    Raises:
        ConfigurationError: A term of the wrong shape, or impossible settings; names group and term.
    """

    def __init__(self, cfgs: Mapping[str, ObservationGroupCfg], env: EnvView) -> None:
        super().__init__()
        self._env = env
        self._sources: list[Callable[[], Tensor]] = []
        self._source_names: list[str] = []
        self._groups: dict[str, list[tuple[str, int, _Channel]]] = {}
        shared: dict[tuple[object, str], int] = {}
        if not cfgs:
            raise ConfigurationError("observations has no groups: a policy needs at least one")
        for group, cfg in cfgs.items():
            if not cfg.terms:
                raise ConfigurationError(f"observations.{group} has no terms")
            self._groups[group] = []
            for name, term in cfg.terms.items():
                path = f"observations.{group}.terms.{name}"
                # A class may hold state, so only plain functions are shared between groups.
                key = (term.func, repr(sorted(term.params.items()))) if not inspect.isclass(term.func) else (path, "")
                if key not in shared:
                    shared[key] = len(self._sources)
                    self._sources.append(bind_term(term, env, path))
                    self._source_names.append(f"{group}/{name}/term")
                source = shared[key]
                value = probe(self._sources[source], path, (env.num_envs, None), torch.float32, env)
                channel = _Channel(term, env, value.shape[1], path, cfg.enable_corruption)
                self._groups[group].append((name, source, channel))
        self.current: dict[str, Tensor] = {
            group: self.keep_rows(f"current/{group}", env.num_envs, width, device=env.device)
            for group, width in self.widths.items()
        }

    @property
    def widths(self) -> dict[str, int]:
        """Columns of each group."""
        return {group: sum(channel.width for _, _, channel in terms) for group, terms in self._groups.items()}

    @property
    def layout(self) -> dict[str, dict[str, int]]:
        """Columns of each term, by group, in order."""
        return {group: {name: c.width for name, _, c in terms} for group, terms in self._groups.items()}

    def children(self) -> list[tuple[str, object]]:
        """Each term's noise, delay and history; class terms themselves."""
        channels = [(f"{g}/{name}", c) for g, terms in self._groups.items() for name, _, c in terms]
        return [*channels, *zip(self._source_names, self._sources, strict=True)]

    def compute(self) -> dict[str, Tensor]:
        """Advance every row by one frame and return fresh (num_envs, width) tensors by group."""
        raw = [source() for source in self._sources]
        return {
            group: torch.cat([channel.advance(raw[source]) for _, source, channel in terms], dim=1)
            for group, terms in self._groups.items()
        }

    def renew(self, written: Tensor, reset: Tensor) -> dict[str, Tensor]:
        """Return observations after a commit; only rows under ``written`` may change.

        Rows under ``reset`` start new histories; other written rows have their newest frame corrected.
        """
        for term in self._sources:
            reset_term(term, reset)
        raw = [source() for source in self._sources]
        return {
            group: torch.cat([channel.renew(raw[source], written, reset) for _, source, channel in terms], dim=1)
            for group, terms in self._groups.items()
        }

    def publish(self, observations: Mapping[str, Tensor]) -> None:
        """Keep the observations that the next action answers."""
        for group, value in observations.items():
            self.current[group].copy_(value)
