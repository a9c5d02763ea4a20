"""Observation terms in the frame of the robot's anchor body; each returns (num_envs, width) float32.

Orientations are shown as the first two columns of a rotation matrix, row by row, which has no jumps and does not
depend on a quaternion's sign.

Source:
    Public unilab 1.5.2, motion tracking task.
"""

from torch import Tensor

from domain.motion.command import MotionCommand
from domain.rotations import quat_conjugate, quat_mul, quat_rotate_inverse, rot6
from domain.view import EnvView


def motion_anchor_pos_b(env: EnvView, *, command: str) -> Tensor:
    """Return where the reference's anchor is, seen from the robot's, (num_envs, 3), m."""
    motion = env.command_term(command, MotionCommand)
    return quat_rotate_inverse(motion.robot_anchor_quat, motion.anchor_pos - motion.robot_anchor_pos)


def motion_anchor_ori_b(env: EnvView, *, command: str) -> Tensor:
    """Return how the reference's anchor is turned, seen from the robot's, (num_envs, 6)."""
    motion = env.command_term(command, MotionCommand)
    return rot6(quat_mul(quat_conjugate(motion.robot_anchor_quat), motion.anchor_quat))


def robot_body_pos_b(env: EnvView, *, command: str) -> Tensor:
    """Return where the robot's tracked bodies are, seen from its anchor, (num_envs, 3 * bodies), m."""
    motion = env.command_term(command, MotionCommand)
    offset = motion.robot_body_pos - motion.robot_anchor_pos.unsqueeze(1)
    return quat_rotate_inverse(motion.robot_anchor_quat.unsqueeze(1), offset).flatten(1)


def robot_body_ori_b(env: EnvView, *, command: str) -> Tensor:
    """Return how the robot's tracked bodies are turned, seen from its anchor, (num_envs, 6 * bodies)."""
    motion = env.command_term(command, MotionCommand)
    turn = quat_mul(quat_conjugate(motion.robot_anchor_quat).unsqueeze(1), motion.robot_body_quat)
    return rot6(turn).flatten(1)
