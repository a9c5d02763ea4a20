"""Each off-policy learner swings the small pendulum up, within the steps of its check."""

from collections.abc import Iterator

import pytest

from benchmarks.learn_small import CHECKS, train
from tests.support.threads import one_thread

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.mark.parametrize("algo", sorted(CHECKS))
def test_the_pendulum_swings_up(algo: str) -> None:
    outcome = train(CHECKS[algo], seed=1, until_solved=True)

    assert outcome.solved_at is not None, outcome.returns
