"""Ends of episodes that have lost their reference motion, or reached its end; each returns (num_envs,) bool.

Source:
    Public unilab 1.5.2, motion tracking task.
"""

from typing import Annotated

from torch import Tensor

from domain.managers.terms import Bounds, Positive
from domain.motion.command import MotionCommand
from domain.view import EnvView

GravityError = Annotated[Tensor, Bounds(0.0, 2.0, open_low=True)]


def anchor_height_off(env: EnvView, *, command: str, limit: Positive) -> Tensor:
    """End rows whose anchor is further than ``limit`` m above or below the reference's."""
    motion = env.command_term(command, MotionCommand)
    return (motion.anchor_pos[:, 2] - motion.robot_anchor_pos[:, 2]).abs() > limit


def anchor_tilt_off(env: EnvView, *, command: str, limit: GravityError) -> Tensor:
    """End rows whose anchor leans otherwise than the reference's, whatever their headings.

    ``limit`` is the difference in gravity's share along the anchor's z axis: -1 upright, 1 upside down.
    """
    motion = env.command_term(command, MotionCommand)
    return (_gravity_z(motion.anchor_quat) - _gravity_z(motion.robot_anchor_quat)).abs() > limit


class BodyHeightOff:
    """End rows where any of some bodies is further than ``limit`` m above or below its place in the motion.

    Args:
        command: Name of a motion command.
        bodies: Names or patterns of tracked bodies.
        limit: m.

    Raises:
        ConfigurationError: A pattern fits no tracked body, or two fit the same.
    """

    def __init__(self, env: EnvView, *, command: str, bodies: tuple[str, ...], limit: Positive) -> None:
        self._motion = env.command_term(command, MotionCommand)
        self._ids = self._motion.body_ids(bodies)
        self._limit = limit

    def __call__(self) -> Tensor:
        """Return (num_envs,) bool."""
        error = self._motion.relative_pos[:, self._ids, 2] - self._motion.robot_body_pos[:, self._ids, 2]
        return (error.abs() > self._limit).any(dim=1)


def clip_end(env: EnvView, *, command: str) -> Tensor:
    """End rows at the last frame of their clip; declare it with ``time_out=True``: the robot has not failed."""
    motion = env.command_term(command, MotionCommand)
    return motion.frame >= motion.clip_end


def _gravity_z(quat: Tensor) -> Tensor:
    """Return the z component of gravity's direction in the frame of (num_envs, 4) quaternions."""
    return 2.0 * quat[:, 1:3].square().sum(dim=1) - 1.0
