"""The solver of standing poses fulfils what it is asked, or says which frame is out of reach."""

import pytest
import torch

from application.motion.builtin import FEET, LEGS
from application.motion.stance import Stance, StanceSolver
from application.motion.trajectory import Trajectory
from domain.errors import DataError
from tests.support.motion_files import g1_kinematics, g1_robot, g1_scene

ROBOT = g1_robot()


def wanted(height: float, frames: int = 3) -> Stance:
    stand = torch.tensor(g1_scene().index.default_qpos, dtype=torch.float64)
    feet = torch.tensor([[0.0, 0.12, 0.035], [0.02, -0.12, 0.035]], dtype=torch.float64)
    level = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    shift = torch.linspace(-0.05, 0.05, frames, dtype=torch.float64)
    return Stance(
        com=torch.stack((torch.full_like(shift, 0.04), shift), dim=1),
        root_height=torch.full((frames,), height, dtype=torch.float64),
        root_quat=level.repeat(frames, 1),
        feet_pos=feet.repeat(frames, 1, 1),
        feet_quat=level.expand(frames, 2, 4),
        joint_pos=stand[7:].repeat(frames, 1),
    )


def solve(stance: Stance) -> Trajectory:
    return StanceSolver(ROBOT, g1_kinematics(), FEET, LEGS).solve(stance, 50.0)


def test_feet_centre_of_mass_and_height_are_where_they_shall_be() -> None:
    stance = wanted(0.72)

    poses = g1_kinematics().poses(solve(stance).qpos)

    ids = [ROBOT.bodies.index(name) for name in FEET]
    torch.testing.assert_close(poses.body_pos[:, ids], stance.feet_pos, atol=1e-6, rtol=0)
    torch.testing.assert_close(poses.body_quat[:, ids].abs(), stance.feet_quat, atol=1e-6, rtol=0)
    torch.testing.assert_close(poses.com[:, :2], stance.com, atol=1e-6, rtol=0)
    torch.testing.assert_close(poses.body_pos[:, 0, 2], stance.root_height, atol=1e-6, rtol=0)


def test_joints_that_are_no_legs_and_the_request_itself_stay_as_they_are() -> None:
    stance = wanted(0.72)
    before = stance.joint_pos.clone()

    found = solve(stance)

    assert torch.equal(stance.joint_pos, before)
    assert torch.equal(found.joint_pos[:, 12:], before[:, 12:])


def test_a_height_beyond_the_legs_is_refused() -> None:
    with pytest.raises(DataError, match="cannot reach frame"):
        solve(wanted(1.2))
