"""Errors and states on their way through the pipe."""

import pytest
import torch

from adapters.collector.messages import Failed, packed, unpacked
from domain.errors import ConfigurationError, UnilabError
from tests.support.small_env import make_env, step


class TermError(ConfigurationError):
    """An error that only one module knows, and that takes more than a message."""

    def __init__(self, term: str, value: int) -> None:
        super().__init__(f"{term} is {value}")


def caught(error: Exception) -> Failed:
    try:
        raise error
    except (UnilabError, ValueError) as raised:
        return Failed.of(raised, "tick 3, phase 'step'")


def test_an_error_of_our_tree_travels_as_its_nearest_known_class() -> None:
    failed = caught(TermError("rewards.alive.weight", 3))

    assert failed.kind is ConfigurationError
    assert failed.message == "rewards.alive.weight is 3"


def test_another_error_travels_as_its_traceback() -> None:
    failed = caught(ValueError("too far"))

    assert failed.kind is None
    assert failed.trace.startswith("Traceback (most recent call last):")
    assert failed.trace.endswith("ValueError: too far")


def test_a_state_comes_back_bit_for_bit() -> None:
    env = make_env()
    step(env, 3)
    state = env.state_dict()

    back = unpacked(packed(state))

    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) and back[name].dtype == state[name].dtype for name in state)


def test_bytes_that_would_run_code_are_refused() -> None:
    with pytest.raises(Exception, match="[Ww]eights.only"):
        unpacked(packed({"code": print}))  # type: ignore[dict-item]
