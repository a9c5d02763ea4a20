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
    quat = env.entity(entity).root_quat
    up = 1.0 - 2.0 * (quat[:, 1].square() + quat[:, 2].square())
    return up < torch.cos(limit)


def base_height_below(env: EnvView, *, minimum: Finite, entity: str = "robot") -> Tensor:
    """End rows whose base is lower than ``minimum`` m in the world."""
    return env.entity(entity).root_pos[:, 2] < minimum


def joint_pos_outside(env: EnvView, *, joints: EntitySelection, bounds: Range) -> Tensor:
    """End rows with any chosen joint outside ``bounds``, rad or m."""
    pos = joints.entity.joint_pos[:, joints.joint_ids]
    return ((pos < bounds[0]) | (pos > bounds[1])).any(dim=1)
