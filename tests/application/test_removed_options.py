"""Options of earlier products are named, and none of them is one of ours."""

import pytest

from application.config import Choices, to_values
from application.overrides import leaf_paths
from application.removed_options import REMOVED, refuse_removed, refuse_removed_keys
from application.tasks.registry import TASKS
from domain.errors import ConfigurationError


@pytest.mark.parametrize("name", REMOVED)
def test_each_is_refused_in_one_line_that_says_what_there_is_instead(name: str) -> None:
    """FR-73."""
    with pytest.raises(ConfigurationError, match=f"^training.{name} does not exist here: .*\\w") as caught:
        refuse_removed(f"training.{name}")

    assert "\n" not in str(caught.value)


def test_other_options_pass() -> None:
    refuse_removed("train.num_envs")
    refuse_removed_keys({"train": {"num_envs": 8}, "num_gpus_seen": 1})
    # A term calls its parameters what it likes.
    refuse_removed("rewards.speech.params.amp")
    refuse_removed_keys({"commands": {"twist": {"params": {"sync_mode": 1}}}})


def test_saved_keys_are_searched_at_any_depth() -> None:
    with pytest.raises(ConfigurationError, match=r"training.replay.sync_mode does not exist here"):
        refuse_removed_keys({"task": "a", "training": {"replay": {"sync_mode": "x"}}})


@pytest.mark.parametrize("task", TASKS)
def test_no_key_of_a_task_is_called_like_one(task: str) -> None:
    for algo in TASKS[task].algorithms:
        values = to_values(TASKS[task].build(algo), Choices(algo=algo, sim="mujoco", device="cpu"))

        assert not {path.rpartition(".")[2] for path in leaf_paths(values)} & REMOVED.keys()
