"""Every provider builds what its port asks for."""

from pathlib import Path

import pytest
import torch
from dependency_injector import errors

from application.ports import Run, SimulationJob
from application.tasks.registry import TASKS
from domain.errors import ConfigurationError
from entrypoints.container import Container, LearnerJob

NO_WARP = "mujoco-warp is not installed: pip install 'unilab[mjwarp]'"


@pytest.fixture
def container(tmp_path: Path) -> Container:
    container = Container()
    container.config.from_dict({"runs_dir": str(tmp_path / "runs")})
    return container


def job() -> LearnerJob:
    observations = {"actor": torch.zeros(4, 5), "critic": torch.zeros(4, 5)}
    task = TASKS["cartpole_balance"].build("ppo")
    return LearnerJob(task=task, observations=observations, action_dim=1, device=torch.device("cpu"))


@pytest.mark.parametrize("name", ["mujoco", pytest.param("mjwarp", marks=pytest.mark.slow)])
def test_every_simulator_builds_a_backend_with_the_capabilities_it_declares(container: Container, name: str) -> None:
    if name == "mjwarp":
        pytest.importorskip("mujoco_warp", reason=NO_WARP)
    task = TASKS["cartpole_balance"].build("ppo")
    simulator = container.simulators(name)

    backend = simulator.build(SimulationJob(scene=task.make_scene(), num_envs=2))

    assert backend.num_envs == 2
    assert backend.capabilities == simulator.capabilities
    backend.close()


def test_every_simulator_is_tried_above(container: Container) -> None:
    assert set(container.simulators.providers) == {"mujoco", "mjwarp"}


def test_a_simulator_without_physics_threads_refuses_their_cpus(container: Container) -> None:
    task = TASKS["cartpole_balance"].build("ppo")

    with pytest.raises(ConfigurationError, match="train.cpu_ids pins physics threads"):
        container.simulators("mjwarp").build(SimulationJob(scene=task.make_scene(), num_envs=2, cpu_ids=(0,)))


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
        container.motion_files(),
        container.motion_plotter(),
        container.kinematics(TASKS["g1_motion"].build("ppo").make_scene()),
        container.choose_display(),
        container.system(),
    ]

    assert len(built) == 11
    assert all(part is not None for part in built)


def test_no_provider_is_left_out_of_these_tests() -> None:
    assert set(Container.providers) == {
        "checkpoint_store",
        "collector",
        "choose_display",
        "config",
        "console_sink",
        "engines",
        "kinematics",
        "learners",
        "metrics_file",
        "motion_files",
        "motion_plotter",
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
