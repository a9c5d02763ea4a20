"""Cycles without graphs: which batch, and which place in the actor's turns."""

import torch

from domain.learning.cycles import UpdateCycles


def test_a_cycle_gets_its_slot_and_the_number_of_its_first_update_modulo_the_phases() -> None:
    seen: list[tuple[int, int]] = []
    generator = torch.Generator()
    cycles = UpdateCycles(lambda slot, phase: seen.append((slot, phase)), 3, 2, graph=False, generator=generator)

    for number in range(4):
        cycles.run(number % 2, 3 * number)

    assert seen == [(0, 0), (1, 1), (0, 0), (1, 1)]


def test_nothing_runs_before_it_is_asked_for_without_graphs() -> None:
    seen: list[int] = []

    UpdateCycles(lambda slot, phase: seen.append(slot), 3, 2, graph=False, generator=torch.Generator())

    assert seen == []
