"""Kinematics of a scene's robot: one pass of MuJoCo's own forward kinematics a frame, no dynamics."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adapters.mujoco.compiled_model import compile_physics
from adapters.mujoco.engine import mujoco
from application.motion.ports import Jacobians, Poses
from application.robots.scene import SceneModel
from domain.physics import EntityIndex

_Array = npt.NDArray[np.float64]


class MujocoKinematics:
    """Kinematics over a model and one MjData of its own.

    Args:
        scene: Compiled without its visual elements.
        entity: The robot in it.

    Raises:
        ConfigurationError: The scene does not compile.
    """

    def __init__(self, scene: SceneModel, entity: EntityIndex) -> None:
        self._model = compile_physics(scene)
        self._data = mujoco.MjData(self._model)
        self._bodies = [self._model.body(name).id for name in entity.bodies]
        geoms = np.array([self._model.geom(name).id for name in entity.geoms], dtype=np.int64)
        collides = (self._model.geom_contype | self._model.geom_conaffinity)[geoms] != 0
        self._geoms = geoms[collides]
        planes = self._model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        self._floor = float(self._model.geom_pos[planes, 2].max()) if planes.any() else 0.0

    def poses(self, qpos: Tensor) -> Poses:
        """Return where everything is for qpos (frames, nq)."""
        model, data = self._model, self._data
        frames, geoms = len(qpos), len(self._geoms)
        pos, quat = np.empty((frames, len(self._bodies), 3)), np.empty((frames, len(self._bodies), 4))
        com, heights = np.empty((frames, 3)), np.empty((frames, geoms))
        axes = np.empty((frames, geoms, 3))
        for frame, state in enumerate(_array(qpos)):
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            pos[frame], quat[frame] = data.xpos[self._bodies], data.xquat[self._bodies]
            com[frame] = data.subtree_com[0]
            heights[frame] = data.geom_xpos[self._geoms, 2]
            axes[frame] = data.geom_xmat[self._geoms, 6:]
        lowest = heights - self._reach_down(axes)
        clearance = lowest.min(axis=1) - self._floor if geoms else np.full(frames, np.inf)
        return Poses(
            body_pos=torch.from_numpy(pos),
            body_quat=torch.from_numpy(quat),
            com=torch.from_numpy(com),
            clearance=torch.from_numpy(clearance),
        )

    def jacobians(self, qpos: Tensor, bodies: Sequence[str]) -> Jacobians:
        """Return the Jacobians of ``bodies`` and of the centre of mass for qpos (frames, nq)."""
        model, data = self._model, self._data
        ids = [model.body(name).id for name in bodies]
        frames = len(qpos)
        of_bodies, of_com = np.empty((frames, len(ids), 6, model.nv)), np.empty((frames, 3, model.nv))
        for frame, state in enumerate(_array(qpos)):
            data.qpos[:] = state
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            for place, body in enumerate(ids):
                mujoco.mj_jacBody(model, data, of_bodies[frame, place, :3], of_bodies[frame, place, 3:], body)
            mujoco.mj_jacSubtreeCom(model, data, of_com[frame], 0)
        return Jacobians(bodies=torch.from_numpy(of_bodies), com=torch.from_numpy(of_com))

    def _reach_down(self, axes: _Array) -> _Array:
        """Return how far shapes reach below their centres: (frames, geoms) m from the z components of their axes."""
        kinds, sizes = self._model.geom_type[self._geoms], self._model.geom_size[self._geoms]
        x, y, z = (np.abs(axes[..., i]) * sizes[:, i] for i in range(3))
        along = np.abs(axes[..., 2]) * sizes[:, 1]
        across = np.sqrt(np.clip(1.0 - axes[..., 2] ** 2, 0.0, 1.0)) * sizes[:, 0]
        reach = {
            mujoco.mjtGeom.mjGEOM_SPHERE: np.broadcast_to(sizes[:, 0], x.shape),
            mujoco.mjtGeom.mjGEOM_CAPSULE: along + sizes[:, 0],
            mujoco.mjtGeom.mjGEOM_CYLINDER: along + across,
            mujoco.mjtGeom.mjGEOM_BOX: x + y + z,
        }
        ellipsoid = np.sqrt(x**2 + y**2 + z**2)
        return np.select([kinds == kind for kind in reach], list(reach.values()), default=ellipsoid)


def _array(qpos: Tensor) -> _Array:
    return qpos.double().numpy()
