"""Body states come from adjacent sensors, or not at all."""

import pytest
import torch

from adapters.mujoco.backend import MujocoBackend
from domain.errors import ConfigurationError
from domain.motion.tracked_bodies import TrackedBodies
from domain.rng import TorchManagerRng
from domain.view import EnvView
from tests.support.follower import BODIES, follower


def view_of(*bodies: str) -> EnvView:
    backend = MujocoBackend(follower(bodies), 2)
    return EnvView(backend, TorchManagerRng(0, 2, backend.device), decimation=2, max_episode_length=100)


def test_states_are_views_of_the_sensors() -> None:
    view = view_of(*BODIES)
    robot = TrackedBodies(view, BODIES)
    torch.testing.assert_close(robot.pos[1], torch.tensor([[0.0, 0.0, 0.5], [0.0, 0.15, 0.5], [0.0, -0.15, 0.5]]))

    qvel = torch.zeros(2, 8)
    qvel[0, 0], qvel[0, 6] = 2.0, 3.0
    view.writes.begin_step()
    with view.writes.transaction(torch.tensor([True, False]), "test"):
        rows = torch.tensor([True, False])
        view.writes.write_root_velocity(view.entity("robot"), qvel[:, :6], rows)
        view.writes.write_joints(view.entity("robot"), torch.zeros(2, 2), qvel[:, 6:], rows)
    view.writes.commit()

    torch.testing.assert_close(robot.lin_vel[0, :, 0], torch.tensor([2.0, 2.0, 2.0]))
    torch.testing.assert_close(robot.ang_vel[0, :, 1], torch.tensor([0.0, 3.0, 0.0]))
    assert robot.lin_vel[1].tolist() == [[0.0] * 3] * 3
    assert robot.quat.shape == (2, 3, 4)


def test_a_part_of_the_sensors_bodies_in_their_order_is_enough() -> None:
    robot = TrackedBodies(view_of(*BODIES), BODIES[1:])

    torch.testing.assert_close(robot.pos[0, :, 1], torch.tensor([0.15, -0.15]))


def test_a_missing_sensor_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"no sensor 'right_pos': build the scene with base, left, right"):
        TrackedBodies(view_of("base", "left"), BODIES)


def test_sensors_in_another_order_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"sensor 'left_pos' has 3 numbers at 6, expected 3 at 3: build"):
        TrackedBodies(view_of("base", "right", "left"), BODIES)
