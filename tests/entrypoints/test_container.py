"""Every provider builds what its port asks for."""

from pathlib import Path

import pytest
import torch
from dependency_injector import errors

from application.ports import Run
from application.tasks.registry import TASKS
from entrypoints.container import Container, LearnerJob


@pytest.fixture
def container(tmp_path: Path) -> Container:
    container = Container()
    container.config.from_dict({"runs_dir": str(tmp_path / "runs")})
    return container


def job() -> LearnerJob:
    observations = {"actor": torch.zeros(4, 5), "critic": torch.zeros(4, 5)}
    task = TASKS["cartpole_balance"].build("ppo")
    return LearnerJob(task=task, observations=observations, action_dim=1, device=torch.device("cpu"))


def test_every_simulator_builds_a_backend_with_the_capabilities_it_declares(container: Container) -> None:
    task = TASKS["cartpole_balance"].build("ppo")
    scene = task.scene(task.env.sim_dt)
    for name in container.simulators.providers:
        simulator = container.simulators(name)
        backend = simulator.build(scene, 2, cpu_ids=None, log_dir=None)

        assert backend.num_envs == 2
        assert backend.capabilities == simulator.capabilities
        backend.close()


def test_every_simulator_names_its_engine(container: Container) -> None:
    assert set(container.engines()) == set(container.simulators.providers)


def test_every_learner_builds_and_its_policy_loads_what_it_saves(container: Container) -> None:
    for name in container.learners.providers:
        learner = container.learners(name, job())
        policy = container.policies(name, job(), learner.state_dict())

        torch.testing.assert_close(policy(job().observations), learner.policy()(job().observations))


def test_stores_sinks_and_probes_build(container: Container, tmp_path: Path) -> None:
    run = Run(path=tmp_path)
    built = [
        container.run_store(),
        container.checkpoint_store(),
        container.metrics_file(run),
        container.console_sink(10),
        *container.trackers("none", run),
        *container.trackers("tensorboard", run),
        container.recorder(),
        container.choose_display(),
        container.system(),
    ]

    assert len(built) == 8
    assert all(part is not None for part in built)


def test_no_provider_is_left_out_of_these_tests() -> None:
    assert set(Container.providers) == {
        "checkpoint_store",
        "collector",
        "choose_display",
        "config",
        "console_sink",
        "engines",
        "learners",
        "metrics_file",
        "off_policy_learners",
        "policies",
        "recorder",
        "run_store",
        "simulators",
        "system",
        "trace_file",
        "trace_source",
        "trackers",
        "transfers",
    }


def test_a_missing_setting_is_an_error_with_its_name() -> None:
    with pytest.raises(errors.Error, match="runs_dir"):
        Container().run_store()
