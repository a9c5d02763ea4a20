"""The environment record of a run."""

import json

from adapters.system.probe import LocalSystem
from application.config import Choices
from application.system import determinism, environment_record


def test_a_record_is_plain_and_says_what_a_repeat_promises() -> None:
    record = environment_record(LocalSystem(), Choices(algo="ppo", sim="mujoco", device="cpu"))

    assert json.loads(json.dumps(record)) == record
    assert set(record) >= {"platform", "versions", "device", "simulator", "git", "determinism", "processors"}
    assert record["determinism"] == determinism("cpu")
    assert "same bits" in determinism("cpu")
    assert "same bits" not in determinism("cuda:0")
