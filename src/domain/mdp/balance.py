"""The product reward of a pole on a cart."""

import math

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.managers.terms import Positive
from domain.view import EnvView

_GAUSSIAN_EDGE = -2.0 * math.log(0.1)
"""Makes a kernel fall to 0.1 at its margin."""


def upright_and_centered(
    env: EnvView, *, cart: EntitySelection, pole: EntitySelection, position_margin: Positive, velocity_margin: Positive
) -> Tensor:
    """Return upright * centered * small control * small velocity, (num_envs,), in [0, 1].

    upright = (cos(theta) + 1) / 2; centered = (1 + G(x; position_margin)) / 2;
    small control = (4 + max(0, 1 - 0.9 a^2)) / 5; small velocity = (1 + G(theta'; velocity_margin)) / 2;
    G(v; m) = exp(-0.5 (v / m)^2 * (-2 ln 0.1)), which is 0.1 at v = m.

    Args:
        env: Reads the raw action too.
        cart: One slide joint, m from its default.
        pole: One hinge joint, rad, 0 when upright.
        position_margin: m.
        velocity_margin: rad/s.

    Source:
        mjlab 1.6.0 cartpole, after dm_control.
    """
    x = (cart.joint_pos - cart.default_joint_pos).squeeze(1)
    theta, theta_dot = pole.joint_pos.squeeze(1), pole.joint_vel.squeeze(1)
    upright = (torch.cos(theta) + 1.0) / 2.0
    centered = (1.0 + _gaussian(x, position_margin)) / 2.0
    small_control = (4.0 + (1.0 - 0.9 * env.action.square()).clamp(min=0.0).mean(dim=1)) / 5.0
    small_velocity = (1.0 + _gaussian(theta_dot, velocity_margin)) / 2.0
    return upright * centered * small_control * small_velocity


def _gaussian(value: Tensor, margin: Tensor) -> Tensor:
    return torch.exp(-0.5 * _GAUSSIAN_EDGE * (value / margin).square())
