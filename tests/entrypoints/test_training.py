"""What happens when a run is asked to stop before it has begun."""

from pathlib import Path

import pytest

from application.training import StopFlag
from entrypoints.composition import make_container
from entrypoints.training import Reports, TrainOptions, plan_training, run_training


def test_a_stop_before_the_first_iteration_writes_nothing(tmp_path: Path) -> None:
    container = make_container(tmp_path / "runs")
    job = plan_training(container, TrainOptions(task="cartpole_balance", settings={"train.num_envs": 2}, quiet=True))
    reports = Reports(started=lambda run, env: None, warn=lambda line: None)

    with pytest.raises(KeyboardInterrupt):
        run_training(container, job, stop=StopFlag(requested=True), reports=reports)

    assert not (tmp_path / "runs").exists()
