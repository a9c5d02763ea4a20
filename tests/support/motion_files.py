"""Motion files with one fault each, written as users write them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from adapters.mujoco.kinematics import MujocoKinematics
from application.motion.builtin import make_clip
from application.motion.ports import MotionArrays
from application.motion.trajectory import robot_of
from application.robots import g1
from application.robots.scene import SceneModel
from domain.motion.clip import MotionClip
from domain.physics import EntityIndex

Arrays = dict[str, npt.NDArray[Any]]


@lru_cache
def g1_scene() -> SceneModel:
    """Return the G1 on a floor."""
    return g1.build(timestep=1.0 / 150.0)


def g1_robot() -> EntityIndex:
    """Return the names of the G1."""
    return robot_of(g1_scene().index)


@lru_cache
def g1_kinematics() -> MujocoKinematics:
    """Return the G1's kinematics."""
    return MujocoKinematics(g1_scene(), g1_robot())


@lru_cache
def builtin(name: str = "squat", fps: float = 50.0) -> MotionClip:
    """Return a built-in motion."""
    return make_clip(name, g1_scene().index, g1_kinematics(), fps)


def unnamed(clip: MotionClip) -> Arrays:
    """Return a clip as the first form without names: body 0 is the world."""
    world = {
        "body_pos_w": (clip.body_pos, [0.0, 0.0, 0.0]),
        "body_quat_w": (clip.body_quat, [1.0, 0.0, 0.0, 0.0]),
        "body_lin_vel_w": (clip.body_lin_vel, [0.0, 0.0, 0.0]),
        "body_ang_vel_w": (clip.body_ang_vel, [0.0, 0.0, 0.0]),
    }
    arrays = {
        key: np.concatenate([np.broadcast_to(first, (clip.frames, 1, len(first))), value.numpy()], axis=1)
        for key, (value, first) in world.items()
    }
    return {
        "fps": np.array([int(clip.fps)]),
        "joint_pos": clip.joint_pos.numpy().copy(),
        "joint_vel": clip.joint_vel.numpy().copy(),
        **{key: value.astype(np.float32) for key, value in arrays.items()},
    }


def with_free_joint(clip: MotionClip) -> Arrays:
    """Return a clip as the second form: names, and the free joint before the joints; no world."""
    arrays = unnamed(clip)
    root = [clip.body_pos[:, 0].numpy(), clip.body_quat[:, 0].numpy()]
    speed = [clip.body_lin_vel[:, 0].numpy(), clip.body_ang_vel[:, 0].numpy()]
    return {
        **{key: value[:, 1:] for key, value in arrays.items() if key.startswith("body_")},
        "fps": np.array(50.0),
        "joint_pos": np.concatenate([*root, arrays["joint_pos"]], axis=1),
        "joint_vel": np.concatenate([*speed, arrays["joint_vel"]], axis=1),
        "joint_names": np.array(clip.joints),
        "body_names": np.array(clip.bodies),
    }


def save(path: Path, arrays: Mapping[str, npt.NDArray[Any]], **changes: npt.NDArray[Any]) -> str:
    """Write arrays to an NPZ and return its path."""
    np.savez(path, allow_pickle=True, **{**arrays, **changes})
    return str(path)


def opened(arrays: Mapping[str, npt.NDArray[Any]], source: str = "clip.npz") -> MotionArrays:
    """Return arrays as a reader hands them over."""
    texts = {key: tuple(map(str, value)) for key, value in arrays.items() if value.dtype.kind == "U"}
    numbers = {key: torch.from_numpy(value.astype(np.float64)) for key, value in arrays.items() if key not in texts}
    return MotionArrays(source=source, arrays=numbers, texts=texts, others={})
