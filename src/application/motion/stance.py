"""Whole-body inverse kinematics of a robot that stands: feet where they are told, centre of mass over a given point."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from application.motion.ports import Kinematics
from application.motion.trajectory import Trajectory
from domain.errors import DataError
from domain.physics import EntityIndex
from domain.rotations import quat_conjugate, quat_mul, rotation_vector

ITERATIONS = 30
TOLERANCE = 1e-8
"""m and rad."""
FREE_DOFS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Stance:
    """What each frame shall fulfil; float64."""

    com: Tensor
    """(frames, 2): x and y of the centre of mass, m."""
    root_height: Tensor
    """(frames,) m."""
    root_quat: Tensor
    """(frames, 4)."""
    feet_pos: Tensor
    """(frames, feet, 3) m."""
    feet_quat: Tensor
    """(frames, feet, 4)."""
    joint_pos: Tensor
    """(frames, joints): fixed but for the legs, where the search begins."""


class StanceSolver:
    """Newton's method on the root's position and the joints of the legs.

    There are as many unknowns as conditions: 3 + 6 per leg against 6 per foot, the centre of mass and the height.

    Args:
        robot: Names and addresses.
        kinematics: Of that robot.
        feet: Bodies, each at the end of a leg.
        legs: Joints of all legs, six a foot.
    """

    def __init__(self, robot: EntityIndex, kinematics: Kinematics, feet: Sequence[str], legs: Sequence[str]) -> None:
        self._kinematics = kinematics
        self._feet = tuple(feet)
        self._feet_ids = [robot.bodies.index(name) for name in feet]
        self._legs = [robot.joints.index(name) for name in legs]
        self._dofs = [0, 1, 2, *(FREE_DOFS + joint for joint in self._legs)]

    def solve(self, wanted: Stance, fps: float) -> Trajectory:
        """Return root and joints that fulfil every frame.

        Raises:
            DataError: A frame is out of reach.
        """
        joints, root = wanted.joint_pos.clone(), torch.zeros(len(wanted.com), 3, dtype=torch.float64)
        root[:, :2], root[:, 2] = wanted.com, wanted.root_height
        path = Trajectory(fps=fps, root_pos=root, root_quat=wanted.root_quat, joint_pos=joints)
        for _ in range(ITERATIONS):
            error = self._error(path, wanted)
            if float(error.abs().max()) < TOLERANCE:
                return path
            step = torch.linalg.solve(self._slope(path), error)
            root += step[:, :3]
            joints[:, self._legs] += step[:, 3:]
        frame = int(self._error(path, wanted).abs().amax(dim=1).argmax())
        raise DataError(f"the legs cannot reach frame {frame}: stand higher, or move the feet less")

    def _error(self, path: Trajectory, wanted: Stance) -> Tensor:
        """Return what is missing: (frames, conditions), m and rad."""
        poses = self._kinematics.poses(path.qpos)
        turn = quat_mul(wanted.feet_quat, quat_conjugate(poses.body_quat[:, self._feet_ids]))
        feet = torch.cat((wanted.feet_pos - poses.body_pos[:, self._feet_ids], rotation_vector(turn)), dim=-1)
        com = wanted.com - poses.com[:, :2]
        height = wanted.root_height - path.root_pos[:, 2]
        return torch.cat((feet.flatten(1), com, height[:, None]), dim=1)

    def _slope(self, path: Trajectory) -> Tensor:
        """Return how the conditions change with the unknowns: (frames, conditions, unknowns)."""
        found = self._kinematics.jacobians(path.qpos, self._feet)
        height = torch.zeros_like(found.com[:, :1])
        height[:, 0, 2] = 1.0
        return torch.cat((found.bodies.flatten(1, 2), found.com[:, :2], height), dim=1)[..., self._dofs]
