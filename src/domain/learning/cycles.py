"""Runs a cycle of updates eagerly, or as CUDA graphs that are captured once: the same operations either way."""

from collections.abc import Callable
from functools import partial

import torch

from domain.graphs import capture


class UpdateCycles:
    """One recorded cycle for each batch slot and for each place where the actor's turn can fall in a cycle.

    Args:
        cycle: Does the updates of batch ``slot`` whose first update has number ``phase`` modulo ``phases``.
        updates: Of a cycle.
        phases: Period of the actor's turns, in updates.
        graph: Whether to record.
        generator: What ``cycle`` draws from.
    """

    def __init__(
        self,
        cycle: Callable[[int, int], None],
        updates: int,
        phases: int,
        *,
        graph: bool,
        generator: torch.Generator,
    ) -> None:
        self._cycle = cycle
        self._phases = phases
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        if graph:
            self._record(sorted({cycle_number * updates % phases for cycle_number in range(phases)}), generator)

    def _record(self, phases: list[int], generator: torch.Generator) -> None:
        keys = [(slot, phase) for slot in (0, 1) for phase in phases]
        stream = torch.cuda.Stream(generator.device)
        stream.wait_stream(torch.cuda.current_stream(generator.device))
        with torch.cuda.stream(stream):
            for key in keys:
                self._cycle(*key)
        torch.cuda.current_stream(generator.device).wait_stream(stream)
        first: torch.cuda.CUDAGraph | None = None
        for key in keys:
            self._graphs[key] = capture(partial(self._cycle, *key), generator, sharing=first)
            first = self._graphs[keys[0]]

    def run(self, slot: int, first_update: int) -> None:
        """Do the cycle of ``slot`` that begins with update number ``first_update``."""
        phase = first_update % self._phases
        graph = self._graphs.get((slot, phase))
        if graph is None:
            self._cycle(slot, phase)
        else:
            graph.replay()
