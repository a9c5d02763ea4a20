"""Learners here are tiny, and run on one thread; draws without a generator are the same in every order of tests."""

from collections.abc import Iterator

import pytest
import torch

from tests.support.threads import one_thread


@pytest.fixture(autouse=True)
def _one_thread_one_seed() -> Iterator[None]:
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
