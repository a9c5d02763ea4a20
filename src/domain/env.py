"""The manager-based environment: one control step of all rows, in a fixed order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.env_cfg import EnvCfg
from domain.episode_log import EpisodeLog, EpisodeSummary, FinishedEpisodes
from domain.errors import CapabilityError, ConfigurationError
from domain.faults import FaultLog, FaultReport
from domain.graphs import capture
from domain.managers.action import ActionManager
from domain.managers.command import CommandManager
from domain.managers.curriculum import CurriculumManager, targets
from domain.managers.event import EventManager
from domain.managers.metrics import MetricsManager
from domain.managers.observation import ObservationManager
from domain.managers.recorder import RecorderManager
from domain.managers.reward import RewardManager
from domain.managers.state import Stateful, finite, put, select
from domain.managers.termination import TerminationManager
from domain.motion.clip import MotionClip
from domain.physics import PhysicsBackend
from domain.recording import must_record
from domain.rng import TorchManagerRng
from domain.view import EnvView


@dataclass(slots=True)
class StepResult:
    """What a step returns; rows are envs.

    ``observations`` answer the next action: of rows that ended they are the first of the new episode,
    while ``final_observations`` (full width) are the true successors, meaningful where a row ended.
    ``valid`` is false for rows that broke; their reward is 0 and they count as terminated, not truncated.
    Nothing here aliases the environment, but where no row changed both mappings hold the same tensors. Where steps are
    recorded, a result is overwritten by the second step after it.
    """

    observations: dict[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_observations: dict[str, Tensor]
    valid: Tensor


class ManagerBasedRlEnv(Stateful):
    """Steps ``backend.num_envs`` environments at once.

    No step waits for the device or depends on data by a Python branch, but for the backend's own
    permission to skip masked work that would change nothing.

    Args:
        cfg: Managers and timing.
        backend: The physics; the environment closes it.
        seed: Of every random number that the terms draw.
        clips: Reference motions, for commands that follow them.

    Raises:
        ConfigurationError: A setting or term that cannot work; nothing has been stepped then.
    """

    def __init__(self, cfg: EnvCfg, backend: PhysicsBackend, *, seed: int, clips: Sequence[MotionClip] = ()) -> None:
        super().__init__()
        cfg.check_timing(backend)
        self.cfg = cfg
        self._backend = backend
        self._rng = TorchManagerRng(seed, backend.num_envs, backend.device)
        length = cfg.max_episode_length
        view = EnvView(backend, self._rng, decimation=cfg.decimation, max_episode_length=length, clips=clips)
        self.view = view
        tuned = targets(cfg.curricula)
        # Events come first: they give model fields per-env values, which later terms may read.
        self.events = EventManager(cfg.events, view)
        self.commands = CommandManager(cfg.commands, view)
        self.actions = ActionManager(cfg.actions, view)
        self.observations = ObservationManager(cfg.observations, view)
        self.terminations = TerminationManager(cfg.terminations, view)
        self.rewards = RewardManager(cfg.rewards, view, scale_by_dt=cfg.scale_rewards_by_dt, tuned=tuned)
        self.metrics = MetricsManager(cfg.metrics, view)
        self.curricula = CurriculumManager(cfg.curricula, view)
        self.recorders = RecorderManager(cfg.recorders, view)
        self._stagger = self._rng.reserve(1)
        self._rng.freeze()

        device, n = backend.device, backend.num_envs
        self.metric_names = (*self.commands.metrics(), *self.metrics.names)
        self.episode_metrics = torch.zeros(n, len(self.metric_names), device=device)
        """Of each row's last finished episode, (num_envs, metrics)."""
        self._episodes = EpisodeLog(self.rewards.names, self.terminations.names, self.metric_names, device)
        reward_sources = tuple(f"reward/{name}" for name in self.rewards.names)
        group_sources = tuple(f"observation/{name}" for name in self.observations.widths)
        metric_sources = tuple(f"metric/{name}" for name in self.metrics.names)
        self._faults = FaultLog(("physics", *reward_sources, *group_sources, *metric_sources, "stray write"), device)
        self._elapsed = self.keep_rows("elapsed", n, device=device, dtype=torch.int64)
        for name in ("step_count", "episode_length", "terminated", "truncated"):
            self.keep(name, getattr(view, name))
        for path, tensor in view.tunables.items():
            self.keep(f"tunable/{path}", tensor)
        for name, entity in view.entities.items():
            self.keep(f"encoder_bias/{name}", entity.encoder_bias)
        self._all_rows = torch.ones(n, dtype=torch.bool, device=device)
        self._has_reset = False
        self._given = torch.zeros_like(view.action)
        self._recorded: list[tuple[Callable[[], None], StepResult]] = []
        self._turn = 0
        self._startup()

    @property
    def num_envs(self) -> int:
        """Rows."""
        return self._backend.num_envs

    @property
    def device(self) -> torch.device:
        """Where every tensor of the environment lives."""
        return self._backend.device

    def reset(self, mask: Tensor | None = None, *, seed: int | None = None, stagger: bool = False) -> dict[str, Tensor]:
        """Start new episodes and return the observations of all rows by group, (num_envs, width).

        Args:
            mask: (num_envs,) bool; None means all rows. An empty mask changes nothing and draws nothing.
            seed: Start the random stream anew first; start-up randomisation stays as it was drawn.
            stagger: Start at random ages as the first reset does, where the configuration says so: for a run that
                goes on with fresh episodes, which would else time out together.

        Raises:
            ConfigurationError: ``mask`` has another shape or type, or is partial at the first reset.
        """
        rows = self._check_mask(mask)
        if seed is not None:
            self._rng.seed(seed)
        if self._backend.skips(rows, may_wait=True):
            return {group: value.clone() for group, value in self.observations.current.items()}
        self._rng.advance()
        self.view.writes.begin_step()
        first = not self._has_reset
        if not first:
            self.recorders.pre_reset(rows)
        self._has_reset = True
        self._reset_rows(rows)
        if (first or stagger) and self.cfg.stagger_episodes:
            ages = self._stagger.uniform()[:, 0] * self.cfg.max_episode_length
            ages = ages.to(torch.int64).clamp(max=self.cfg.max_episode_length - 1)
            put(self.view.episode_length, rows, ages)
        self.view.writes.commit()
        observations = self._renew(self.observations.current)
        self.recorders.post_reset(rows)
        return observations

    def step(self, action: Tensor) -> StepResult:
        """Apply ``action``, (num_envs, action dim) float32, for one control step.

        Raises:
            ConfigurationError: The action has another type, shape, dtype or device, or no reset came first.
            SimulationError: The engine refused to go on.
        """
        if not self._has_reset:
            raise ConfigurationError("reset() comes before the first step()")
        self.actions.check(action)
        if not self._recorded:
            return self._step(action)
        self._given.copy_(action)
        replay, result = self._recorded[self._turn]
        self._turn = (self._turn + 1) % len(self._recorded)
        replay()
        return result

    def record(self) -> None:
        """Record the whole step as a CUDA graph, which every later step replays; explicit resets stay as they are.

        Two recordings take turns, so that a result is there until the step after the next one, when who learns from
        it has put it elsewhere.

        Raises:
            CapabilityError: The environment is not on a CUDA device.
            ConfigurationError: A term cannot be recorded; names it.
        """
        self.rehearse()
        with self.kept_state():
            results: list[StepResult] = []
            for _ in range(2):
                graph = capture(lambda: results.append(self.step_recorded(self._given)), self._rng.generator)
                self._recorded.append((graph.replay, results[-1]))

    def rehearse(self) -> None:
        """Step as a recording will, and undo it: kernels are built, memory is found, and terms that wait are named.

        Raises:
            CapabilityError: The environment is not on a CUDA device.
            ConfigurationError: A term cannot be recorded; names it.
        """
        if self.device.type != "cuda":
            raise CapabilityError(f"the environment is on {self.device}: only a CUDA device's steps can be recorded")
        with self.kept_state():
            self._step(self._given)
            with must_record(self, self.device):
                self._step(self._given)

    def step_recorded(self, action: Tensor) -> StepResult:
        """Do one step as a part of work that a CUDA graph may be recording."""
        if self.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            return self._step(action)
        with self._backend.recording():
            return self._step(action)

    @contextmanager
    def kept_state(self) -> Iterator[None]:
        """Undo what happens to the environment inside; it is reset first if it never was."""
        if not self._has_reset:
            self.reset()
        before = self.state_dict()
        yield
        self.load_state_dict(before)

    @property
    def generator(self) -> torch.Generator:
        """The random stream; a graph that records a step has to know it."""
        return self._rng.generator

    def _step(self, action: Tensor) -> StepResult:
        view, backend = self.view, self._backend
        self.actions.process(action)
        self._rng.advance()
        backend.step(self.cfg.decimation)
        view.step_count += 1
        view.episode_length += 1
        self._elapsed += 1
        self.commands.advance()
        self.terminations.compute()
        reward = self.rewards.compute()
        broken = view.state.diverged | ~finite(reward)
        self.metrics.compute()

        view.writes.begin_step()
        live = ~(view.terminated | view.truncated | broken)
        if self.events.acts_in_step:
            with view.writes.transaction(live, "events"):
                self.events.compute(live)
        with view.writes.transaction(live, "commands", command=True):
            self.commands.compute(live)

        observed = self.observations.compute()
        # A sum is finite only if all that it adds is.
        bad = ~finite(torch.stack([value.sum(dim=1) for value in observed.values()], dim=1))
        broken = broken | bad.any(dim=1)
        final = self._settle(reward, broken, bad, observed)
        done = view.terminated | view.truncated
        result = StepResult(final, reward, view.terminated.clone(), view.truncated.clone(), final, ~broken)
        resets = not backend.skips(done)
        if resets:
            self._log_episodes(done & ~broken)
            self.recorders.pre_reset(done)
            self._reset_rows(done)
        view.writes.commit()
        if not view.writes.staged or backend.skips(view.writes.written):
            self.observations.publish(final)
        else:
            result.observations = self._renew(final)
        if resets:
            self.recorders.post_reset(done)
        self.recorders.post_step(result.observations, reward, done)
        return result

    def drain_episodes(self) -> EpisodeSummary:
        """Return the means over the episodes that ended since the last call."""
        return self._episodes.drain()

    def drain_faults(self) -> FaultReport:
        """Return the rows that broke since the last call, by source."""
        return self._faults.drain()

    def notice(self) -> str | None:
        """Return what a user should know of the engine, if anything; waits for the device."""
        return self._backend.notice()

    def children(self) -> list[tuple[str, object]]:
        """All managers and logs."""
        return [
            ("events", self.events),
            ("commands", self.commands),
            ("actions", self.actions),
            ("observations", self.observations),
            ("terminations", self.terminations),
            ("rewards", self.rewards),
            ("metrics", self.metrics),
            ("curricula", self.curricula),
            ("recorders", self.recorders),
            ("writes", self.view.writes),
            ("episodes", self._episodes),
            ("faults", self._faults),
        ]

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, the backend's snapshot included."""
        state = super().state_dict()
        parts = {"rng": self._rng.state_dict(), "backend": self._backend.snapshot()}
        for part, values in parts.items():
            state |= {f"{part}/{name}": tensor for name, tensor in values.items()}
        return state

    def copy_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state``: on a CPU backend bit for bit."""
        super().copy_state(state)
        self._backend.restore(select(state, "backend"))
        self._rng.load_state_dict(select(state, "rng"))
        self._has_reset = True

    def close(self) -> None:
        """Close recorders and the backend."""
        try:
            self.recorders.close()
        finally:
            self._backend.close()

    def _startup(self) -> None:
        self._rng.advance()
        self.view.writes.begin_step()
        with self.view.writes.transaction(self._all_rows, "startup events"):
            self.events.startup(self._all_rows)
        self.view.writes.commit()

    def _settle(self, reward: Tensor, broken: Tensor, bad: Tensor, observed: dict[str, Tensor]) -> dict[str, Tensor]:
        """End broken rows with reward 0, count what broke, and return the final observations."""
        view = self.view
        stray, metrics = view.writes.outside, self.metrics.broken
        flawed = broken | stray
        if not self._backend.skips(flawed | metrics.any(dim=1) if self.metrics.names else flawed):
            rewards = ~finite(self.rewards.weighted)
            sources = (view.state.diverged.unsqueeze(1), rewards, bad, metrics, stray.unsqueeze(1))
            self._faults.record(torch.cat(sources, dim=1), view.step_count)
            stray.zero_()
            reward.masked_fill_(broken, 0.0)
            self.rewards.void(broken)
            view.terminated.logical_or_(broken)
            view.truncated.logical_and_(~broken)
            # A broken row's true successor is unknown: it keeps its last finite observation.
            rows, current = broken.unsqueeze(1), self.observations.current
            observed = {group: torch.where(rows, current[group], value) for group, value in observed.items()}
        self.rewards.accumulate()
        return observed

    def _reset_rows(self, rows: Tensor) -> None:
        """Run curricula and put the rows under ``rows`` to a new episode, staged."""
        self.curricula.compute(rows)
        with self.view.writes.transaction(rows, "reset"):
            self.view.writes.stage_reset()
            self.events.reset(rows)
            self.commands.reset(rows)
        self.view.episode_length.masked_fill_(rows, 0)
        self._elapsed.masked_fill_(rows, 0)
        for manager in (self.actions, self.rewards, self.terminations, self.metrics):
            manager.reset(rows)

    def _log_episodes(self, rows: Tensor) -> None:
        sums = self.rewards.episode_sums
        scale = self.view.step_dt if self.cfg.scale_rewards_by_dt else 1.0
        command_metrics = [value.unsqueeze(1) for value in self.commands.metrics().values()]
        metrics = torch.cat([*command_metrics, self.metrics.episode_values()], dim=1)
        put(self.episode_metrics, rows.unsqueeze(1), metrics)
        self._episodes.add(
            FinishedEpisodes(
                mask=rows,
                length=self._elapsed,
                reward_sums=sums / scale,
                returns=sums.sum(dim=1),
                fired=self.terminations.fired,
                metrics=metrics,
            )
        )

    def _renew(self, before: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Merge the observations of written rows into ``before`` and publish the result."""
        writes = self.view.writes
        renewed = self.observations.renew(writes.written, writes.reset)
        rows = writes.written.unsqueeze(1)
        merged = {group: torch.where(rows, value, before[group]) for group, value in renewed.items()}
        self.observations.publish(merged)
        return merged

    def _check_mask(self, mask: Tensor | None) -> Tensor:
        if mask is None:
            return self._all_rows
        if not self._has_reset:
            raise ConfigurationError("the first reset() takes no mask: it starts all rows")
        if not isinstance(mask, Tensor):
            raise ConfigurationError(f"a reset mask is a torch.Tensor, not {type(mask).__name__}")
        if mask.dtype != torch.bool or mask.shape != (self.num_envs,) or mask.device != self.device:
            raise ConfigurationError(
                f"a reset mask is torch.bool of shape ({self.num_envs},) on {self.device}, "
                f"not {mask.dtype} of shape {tuple(mask.shape)} on {mask.device}"
            )
        return mask
