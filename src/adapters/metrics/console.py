"""MetricSink for people: a live display on a terminal, one plain line an iteration elsewhere."""

import os
import sys
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

RETURN = "episode/return"
LENGTH = "episode/length"
RATE = "tail_env_steps_per_sec"
SHOWN_GROUPS = ("reward", "termination", "metric", "curriculum", "loss", "learner")


class LastingConsole(Console):
    """A console whose reader may go: rich would end the process, and a run is worth more than its display."""

    def on_broken_pipe(self) -> None:
        """Send this and all later output nowhere."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ConsoleSink:
    """Shows the progress of a run of ``total`` iterations on ``console``.

    A value that an iteration does not bring, because no episode ended in it, keeps showing its last one.
    """

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._console = console
        self._last: dict[str, float] = {}
        self._live: Live | None = None
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._bar = self._progress.add_task("training", total=total)

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Show a finished iteration."""
        self._last |= metrics
        if not self._console.is_terminal:
            self._console.print(self._line(iteration), markup=False, highlight=False, soft_wrap=True)
            return
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._live.start()
            # A resumed run has not done the earlier iterations in this process's time.
            self._progress.reset(self._bar, completed=iteration - 1)
        self._progress.update(self._bar, completed=iteration)
        self._live.update(Group(self._progress, Text(self._line(iteration)), self._table()))

    def close(self) -> None:
        """Leave the last display standing and give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, iteration: int) -> str:
        parts = [f"iteration {iteration}/{self._total}"]
        if RETURN in self._last:
            parts.append(f"return {self._last[RETURN]:.2f}")
        if LENGTH in self._last:
            parts.append(f"length {self._last[LENGTH]:.0f}")
        if RATE in self._last:
            parts.append(f"{self._last[RATE]:,.0f} env steps/s")
        if self._last.get("faults"):
            parts.append(f"faults {self._last['faults']:.0f}")
        return "  ".join(parts)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for group in SHOWN_GROUPS:
            for name, value in self._last.items():
                if name.partition("/")[0] == group:
                    table.add_row(Text(name, style="dim"), Text(f"{value:.4f}"))
        return table
