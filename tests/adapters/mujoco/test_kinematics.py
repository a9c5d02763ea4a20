"""Kinematics agrees with figures that one can compute by hand, and its Jacobians with differences of its poses."""

import math

import pytest
import torch

from adapters.mujoco.kinematics import MujocoKinematics
from application.motion.trajectory import robot_of
from tests.support.motion_files import builtin, g1_kinematics, g1_robot, g1_scene

STAND = torch.tensor(g1_scene().index.default_qpos, dtype=torch.float64)
LEFT_FOOT = "left_ankle_roll_link"


def at(qpos: torch.Tensor, body: str) -> torch.Tensor:
    found = g1_kinematics().poses(qpos[None])
    return found.body_pos[0, g1_robot().bodies.index(body)]


def test_the_root_body_is_where_qpos_puts_it() -> None:
    qpos = STAND.clone()
    qpos[:7] = torch.tensor([1.0, -2.0, 0.9, math.cos(0.25), 0.0, 0.0, math.sin(0.25)])

    found = g1_kinematics().poses(qpos[None])

    torch.testing.assert_close(found.body_pos[0, 0], qpos[:3])
    torch.testing.assert_close(found.body_quat[0, 0], qpos[3:7])


def test_a_turn_of_the_waist_leaves_the_feet_where_they_are_and_takes_the_arms_along() -> None:
    turned = STAND.clone()
    turned[7 + g1_robot().joints.index("waist_yaw_joint")] = math.pi / 2

    x, y, z = at(STAND, "left_shoulder_pitch_link").tolist()

    torch.testing.assert_close(at(turned, LEFT_FOOT), at(STAND, LEFT_FOOT))
    # A quarter turn to the left about the pelvis, which is at x = y = 0.
    torch.testing.assert_close(
        at(turned, "left_shoulder_pitch_link"), torch.tensor([-y, x, z], dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_clearance_is_that_of_the_soles() -> None:
    level = STAND.clone()
    # Ankles undo hip and knee: the soles are level then, 35 mm below the ankles.
    for side in ("left", "right"):
        level[7 + g1_robot().joints.index(f"{side}_ankle_pitch_joint")] = -0.669 + 0.312

    found = g1_kinematics().poses(level[None])
    ankle = float(found.body_pos[0, g1_robot().bodies.index(LEFT_FOOT), 2])

    assert float(found.clearance[0]) == pytest.approx(ankle - 0.035, abs=1e-6)


@pytest.mark.parametrize(
    ("turn", "lowest"),
    [
        # On its back or its front a capsule lies across: torso radius 0.09 m against the head's 0.06 m sphere.
        ([math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0], None),
        # Upside down the head is lowest: 0.43 + 0.06 m below the torso, which is 0.044 m below the pelvis.
        ([0.0, 1.0, 0.0, 0.0], 2.0 - 0.044 - 0.49),
    ],
)
def test_clearance_follows_the_shapes_as_they_turn(turn: list[float], lowest: float | None) -> None:
    qpos = STAND.clone()
    qpos[2] = 2.0
    qpos[3:7] = torch.tensor(turn)

    clearance = float(g1_kinematics().poses(qpos[None]).clearance[0])

    assert 1.0 < clearance < 2.0
    if lowest is not None:
        assert clearance == pytest.approx(lowest, abs=1e-6)


def test_jacobians_are_the_differences_of_poses() -> None:
    path = builtin("wave").joint_pos[100].double()
    qpos = torch.cat((STAND[:7], path))
    bodies = (LEFT_FOOT, "right_wrist_yaw_link")
    kinematics, step = g1_kinematics(), 1e-6

    found = kinematics.jacobians(qpos[None], bodies)

    ids = [g1_robot().bodies.index(name) for name in bodies]
    for joint in (0, 5, 22, 25):
        moved = qpos.clone()
        moved[7 + joint] += step
        poses = kinematics.poses(torch.stack((qpos, moved)))
        speed = (poses.body_pos[1, ids] - poses.body_pos[0, ids]) / step
        com = (poses.com[1] - poses.com[0]) / step
        torch.testing.assert_close(found.bodies[0, :, :3, 6 + joint], speed, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.com[0, :, 6 + joint], com, atol=1e-5, rtol=0)


def test_two_kinematics_of_one_scene_do_not_share_state() -> None:
    scene = g1_scene()
    one, other = MujocoKinematics(scene, robot_of(scene.index)), MujocoKinematics(scene, robot_of(scene.index))
    high = STAND.clone()
    high[2] = 3.0

    first = one.poses(STAND[None])
    other.poses(high[None])

    torch.testing.assert_close(one.poses(STAND[None]).body_pos, first.body_pos)
