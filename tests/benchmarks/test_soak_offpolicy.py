"""The soak foretells rings and batches by itself, tells a damaged one, and knows the right ending of each fault."""

from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.soak.episodes import ENDINGS, Episode, Fault, draw_episode
from benchmarks.soak.expected import ExpectedRing
from benchmarks.soak.running import Outcome, Runner
from benchmarks.soak.world import World

CPU = torch.device("cpu")
WORLD = World(seed=1, num_envs=2, critic=False, episode_steps=9, bad_rows=0.0, bad_chunks=0.0, failures=0.0)
REWARD, TERMINATED, TRUNCATED = -3, -2, -1


def _filled(capacity: int, valid: list[tuple[int, int]]) -> ExpectedRing:
    """Return a ring of chunks of two rows; the reward of row e in chunk t is 10 t + e."""
    ring = ExpectedRing(WORLD, capacity)
    for tick, flags in enumerate(valid):
        rows = torch.zeros(2, WORLD.layout.width)
        rows[:, REWARD] = torch.tensor([10.0 * tick, 10.0 * tick + 1])
        ring.add(rows, torch.tensor(flags, dtype=torch.bool))
    return ring


def test_a_broken_rows_place_has_a_copy_and_ends_the_chain_before_and_in_it() -> None:
    ring = _filled(6, [(1, 1), (0, 1), (1, 1)])

    assert ring.rows[:, REWARD].tolist() == [0.0, 1.0, 11.0, 11.0, 20.0, 21.0]
    assert ring.rows[:, TRUNCATED].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_chunk_without_a_valid_row_only_ends_what_came_before() -> None:
    ring = _filled(6, [(1, 1), (0, 0), (1, 1)])

    assert ring.committed == 4
    assert ring.rows[:4, REWARD].tolist() == [0.0, 1.0, 20.0, 21.0]
    assert ring.rows[:4, TRUNCATED].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_samples_sum_along_an_env_across_the_wrap_until_the_newest_row() -> None:
    # Numbers 6 and 7 lie at places 1 and 2 of five; the oldest row there is number 3, at place 3.
    ring = _filled(5, [(1, 1)] * 4)

    due = ring.samples(torch.tensor([3, 2]), n_step=3, gamma=0.5)

    # From number 3 (chunk 1, env 1) over 5 to 7: 11 + 21 / 2 + 31 / 4; number 7 is the newest of its env.
    assert due.reward.tolist() == [29.25, 31.0]
    assert due.discount.tolist() == [0.125, 0.5]
    assert due.rows[:, REWARD].tolist() == [31.0, 31.0]


def test_an_episode_is_a_function_of_seed_and_number_and_all_faults_come() -> None:
    drawn = [draw_episode(3, number) for number in range(400)]

    assert drawn[17] == draw_episode(3, 17)
    assert {episode.fault for episode in drawn} == set(Fault)
    assert all(0 < episode.tick < episode.iterations for episode in drawn)
    assert set(ENDINGS) < set(Fault)


def _healthy(fault: Fault) -> Episode:
    episode = draw_episode(0, 0, fault)
    plan = replace(episode.replay, slots=replace(episode.replay.slots, layout=WORLD.layout, num_envs=2), capacity=13)
    return replace(episode, world=WORLD, replay=plan, learning_start=4, iterations=60, tick=9, sac=False)


def _run(episode: Episode, folder: Path) -> Outcome:
    (outcome,) = Runner(CPU, folder).run(episode)
    return outcome


def test_a_run_with_a_killed_collector_is_looked_at_and_ends_as_it_has_to(tmp_path: Path) -> None:
    outcome = _run(_healthy(Fault.KILL), tmp_path)

    assert outcome.problems == []
    assert outcome.ticks >= 9
    assert min(outcome.checked.values()) > 0


def test_a_damaged_chunk_without_checksums_shows_in_the_ring(tmp_path: Path) -> None:
    outcome = _run(replace(_healthy(Fault.DAMAGE), checksums=False), tmp_path)

    assert "had to end with WorkerError" in outcome.problems[1]
    assert outcome.problems[0] == "first wrong in tick 9"
    assert outcome.wrong["ring_rows"] > 0
