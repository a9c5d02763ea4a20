"""Termination terms; each returns (num_envs,) bool."""

import math
from typing import Annotated

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.managers.terms import Bounds, Finite, Range
from domain.view import EnvView

Tilt = Annotated[Tensor, Bounds(0.0, math.pi, open_low=True)]


def time_out(env: EnvView) -> Tensor:
    """End rows whose episode has lasted the time limit; declare it with ``time_out=True``."""
    return env.episode_length >= env.max_episode_length


def bad_orientation(env: EnvView, *, limit: Tilt, entity: str = "robot") -> Tensor:
    """End rows whose base z axis is further than ``limit`` rad from the world's."""
    # The angle is twice the arc sine of the quaternion's horizontal part.
    horizontal: Tensor = torch.linalg.vector_norm(env.entity(entity).root_quat[:, 1:3], dim=1)
    return horizontal > torch.sin(limit / 2.0)


def up_vector_tilted(env: EnvView, *, limit: Tilt, sensor: str) -> Tensor:
    """End rows whose up-vector sensor is further than ``limit`` rad from the world's z axis."""
    return env.sensor(sensor)[:, 2] < torch.cos(limit)


def base_height_below(env: EnvView, *, minimum: Finite, entity: str = "robot") -> Tensor:
    """End rows whose base is lower than ``minimum`` m in the world."""
    return env.entity(entity).root_pos[:, 2] < minimum


def joint_pos_outside(env: EnvView, *, joints: EntitySelection, bounds: Range) -> Tensor:
    """End rows with any chosen joint outside ``bounds``, rad or m."""
    pos = joints.joint_pos
    return ((pos < bounds[0]) | (pos > bounds[1])).any(dim=1)
