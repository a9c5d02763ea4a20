"""History and delay lines of fixed size, advanced once a step, reset by row masks.

Pointers and lags are device tensors, so that a captured step replays them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful, put, set_rows
from domain.rng import Draw, TorchManagerRng


class CircularBuffer(Stateful):
    """The last ``length`` frames of every row, (num_envs, width) each.

    The first frame after construction or after a row's reset fills all slots of that row.

    Raises:
        ConfigurationError: A length below 1.
    """

    def __init__(self, length: int, num_envs: int, width: int, device: torch.device) -> None:
        super().__init__()
        if length < 1:
            raise ConfigurationError(f"a history holds at least 1 frame, not {length}")
        self.length = length
        self._slots = self.keep("slots", torch.zeros(length, num_envs, width, device=device))
        self._newest = self.keep("newest", torch.full((1,), length - 1, dtype=torch.int64, device=device))
        self._filled = self.keep_rows("filled", num_envs, device=device, dtype=torch.bool)
        self._ages = torch.arange(length - 1, -1, -1, device=device)

    def append(self, frame: Tensor) -> None:
        """Advance by one frame for all rows."""
        self._newest.add_(1).remainder_(self.length)
        fresh = (~self._filled).view(1, -1, 1)
        put(self._slots, fresh, frame)
        self._slots.index_copy_(0, self._newest, frame.unsqueeze(0))
        self._filled.fill_(True)

    def backfill(self, frame: Tensor, mask: Tensor) -> None:
        """Write ``frame`` into all slots of the rows under ``mask``; no other row moves."""
        put(self._slots, mask.view(1, -1, 1), frame)
        self._filled |= mask

    def replace_newest(self, frame: Tensor, mask: Tensor) -> None:
        """Write ``frame`` over the newest one of the rows under ``mask``."""
        newest = self._slots.index_select(0, self._newest)
        self._slots.index_copy_(0, self._newest, torch.where(mask.view(1, -1, 1), frame, newest))

    def reset(self, mask: Tensor) -> None:
        """Zero the rows under ``mask``; their next frame fills all slots."""
        self._slots.masked_fill_(mask.view(1, -1, 1), 0.0)
        self._filled &= ~mask

    def frames(self) -> Tensor:
        """Return (num_envs, length, width), oldest first."""
        order = (self._newest - self._ages) % self.length
        return self._slots.index_select(0, order).transpose(0, 1)

    def at(self, lag: Tensor) -> Tensor:
        """Return (num_envs, width): each row's frame ``lag`` (num_envs,) int64 steps ago, lag < length."""
        slot = (self._newest - lag) % self.length
        index = slot.view(1, -1, 1).expand(1, -1, self._slots.shape[2])
        return self._slots.gather(0, index).squeeze(0)


@dataclass(frozen=True, kw_only=True)
class DelayCfg:
    """How late frames arrive, in control steps; the lag is drawn per row at its reset.

    ``hold_probability`` is the chance of keeping the old lag where a new one is due,
    ``update_period`` the steps between redraws (0: at resets only), ``shared`` one lag for all rows,
    which a reset redraws only if it is of all rows.
    """

    min_lag: int = 0
    max_lag: int
    hold_probability: float = 0.0
    update_period: int = 0
    shared: bool = False

    def check(self, path: str) -> None:
        """Raise ConfigurationError for impossible lags, probability or period."""
        if not 0 <= self.min_lag <= self.max_lag:
            raise ConfigurationError(f"{path} lags are {self.min_lag} to {self.max_lag}: need 0 <= min_lag <= max_lag")
        if not 0.0 <= self.hold_probability <= 1.0 or self.update_period < 0:
            raise ConfigurationError(f"{path}: hold_probability lies in [0, 1] and update_period is not negative")
        if self.hold_probability and not self.update_period:
            raise ConfigurationError(f"{path}.hold_probability has no effect without an update_period: give one")


class DelayBuffer(Stateful):
    """Returns each row's frame of ``lag`` steps ago.

    Args:
        cfg: Lags and when they are redrawn.
        rng: Where the columns for the lag, and for holding it, are reserved.
        width: Of a frame.
        path: Where it stands in the configuration.

    Raises:
        ConfigurationError: Impossible settings.
    """

    def __init__(self, cfg: DelayCfg, rng: TorchManagerRng, width: int, path: str) -> None:
        super().__init__()
        cfg.check(path)
        self._cfg = cfg
        self._span = cfg.max_lag - cfg.min_lag + 1
        self._draw = rng.reserve(2 if cfg.update_period else 0)
        self._reset_draw = rng.reserve(1)
        self._history = CircularBuffer(cfg.max_lag + 1, rng.num_envs, width, rng.device)
        self._lag = self.keep("lag", torch.full((rng.num_envs,), cfg.min_lag, dtype=torch.int64, device=rng.device))
        self._age = self.keep_rows("age", rng.num_envs, device=rng.device, dtype=torch.int64)

    def children(self) -> list[tuple[str, object]]:
        """The stored frames."""
        return [("history", self._history)]

    def advance(self, frame: Tensor) -> Tensor:
        """Append a frame for all rows, redraw the lags that are due, and return the delayed frames."""
        self._history.append(frame)
        if self._cfg.update_period:
            self._age += 1
            numbers = self._numbers(self._draw)
            held = numbers[:, 1] < self._cfg.hold_probability
            due = (self._age % self._cfg.update_period == 0) & ~held
            set_rows(self._lag, due, self._lags(numbers))
        return self.peek()

    def peek(self) -> Tensor:
        """Return the delayed frames without advancing anything."""
        return self._history.at(self._lag)

    def backfill(self, frame: Tensor, mask: Tensor) -> None:
        """Start the rows under ``mask`` with ``frame`` everywhere and a new lag."""
        self._history.backfill(frame, mask)
        rows = mask & mask.all() if self._cfg.shared else mask
        set_rows(self._lag, rows, self._lags(self._numbers(self._reset_draw)))
        self._age.masked_fill_(rows, 0)

    def replace_newest(self, frame: Tensor, mask: Tensor) -> None:
        """Correct the newest frame of the rows under ``mask``."""
        self._history.replace_newest(frame, mask)

    def _numbers(self, draw: Draw) -> Tensor:
        numbers = draw.uniform()
        return numbers[:1].expand_as(numbers) if self._cfg.shared else numbers

    def _lags(self, numbers: Tensor) -> Tensor:
        return (numbers[:, 0] * self._span).to(torch.int64).clamp(max=self._span - 1) + self._cfg.min_lag
