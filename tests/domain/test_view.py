"""What terms see."""

import pytest
import torch

from domain.errors import ConfigurationError
from domain.rng import TorchManagerRng
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import make_view


def test_a_sensor_is_a_view_of_its_columns() -> None:
    """FR-58: the sensor's own numbers, no stand-in."""
    view = make_view()
    view.state.sensordata[:] = torch.arange(17.0)

    assert view.sensor("linvel")[1].tolist() == [3, 4, 5]
    assert view.sensor("right_contact")[0].tolist() == [16]


@pytest.mark.parametrize("kind", ["entity", "sensor", "command"])
def test_an_unknown_name_is_refused_with_the_known_ones(kind: str) -> None:
    view = make_view()

    with pytest.raises(ConfigurationError, match=f"unknown {kind} 'nobody'"):
        {"entity": view.entity, "sensor": view.sensor, "command": view.command}[kind]("nobody")


def test_a_random_stream_on_another_device_is_refused() -> None:
    rng = TorchManagerRng(0, 2, torch.device("cpu"))
    rng.device = torch.device("cuda:0")

    with pytest.raises(ConfigurationError, match="2 rows on cuda:0, the backend 2 on cpu"):
        EnvView(FakeBackend(2), rng, decimation=1, max_episode_length=1)


def test_a_random_stream_of_other_rows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="3 rows"):
        EnvView(FakeBackend(2), TorchManagerRng(0, 3, torch.device("cpu")), decimation=1, max_episode_length=1)


def test_an_unknown_run_time_parameter_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown run-time parameter 'rewards.alive.weight'"):
        make_view().tunable("rewards.alive.weight")


def test_the_control_step_is_the_physics_step_times_the_decimation() -> None:
    assert make_view().step_dt == 0.02
