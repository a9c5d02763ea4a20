"""Each off-policy learner swings the small pendulum up, within the steps of its check."""

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor

import pytest
import torch

from benchmarks.learn_small import CHECKS, Outcome, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trainings() -> Iterator[Mapping[str, Future[Outcome]]]:
    """Train all side by side, half a minute of one core each."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(CHECKS), spawn, torch.set_num_threads, (1,)) as pool:
        yield {algo: pool.submit(train, check, seed=1, until_solved=True) for algo, check in CHECKS.items()}


@pytest.mark.parametrize("algo", sorted(CHECKS))
def test_the_pendulum_swings_up(trainings: Mapping[str, Future[Outcome]], algo: str) -> None:
    outcome = trainings[algo].result()

    assert outcome.solved_at is not None, outcome.returns
