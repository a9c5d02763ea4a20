"""MetricSink that writes TensorBoard event files."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import OutputError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardSink:
    """Writes each metric as a scalar under its own name; loads TensorBoard with the first row."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Record a row; rows of an earlier life of the run from ``iteration`` on are hidden.

        Raises:
            OutputError: The event file cannot be written.
        """
        try:
            if self._writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self._folder), purge_step=iteration)
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, iteration)
        except OSError as error:
            raise OutputError(f"events cannot be written to {self._folder}: {error.strerror or error}") from error

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            # What could not be written has been said.
            with suppress(OSError):
                self._writer.close()
