"""Facts of the cartpole, measured on the compiled model."""

import math
from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from application.robots import cartpole

Compile = Callable[..., mujoco.MjModel]


@pytest.fixture
def model(compiled: Compile) -> mujoco.MjModel:
    return compiled(cartpole.build())


def tip(model: mujoco.MjModel, angle: float) -> NDArray[np.float64]:
    """The far end of the pole's axis, world frame, m."""
    data = mujoco.MjData(model)
    data.qpos[1] = angle
    mujoco.mj_forward(model, data)
    end: NDArray[np.float64] = data.body("pole_1").xpos + data.body("pole_1").xmat.reshape(3, 3) @ [0.0, 0.0, 1.0]
    return end


def test_angle_zero_is_upright_and_pi_hangs(model: mujoco.MjModel) -> None:
    assert tip(model, 0.0) == pytest.approx([0.0, 0.0, 2.0])
    assert tip(model, math.pi) == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


def test_a_positive_angle_leans_towards_positive_x(model: mujoco.MjModel) -> None:
    assert tip(model, math.pi / 2) == pytest.approx([1.0, 0.0, 1.0])


def test_cart_weighs_one_kilogram_and_the_pole_a_tenth(model: mujoco.MjModel) -> None:
    assert (model.body("cart").mass[0], model.body("pole_1").mass[0]) == (1.0, 0.1)
    assert tuple(model.body("pole_1").ipos) == (0.0, 0.0, 0.5)


def test_slider_and_hinge_have_their_figures(model: mujoco.MjModel) -> None:
    assert tuple(model.joint("slider").range) == (-1.8, 1.8)
    assert tuple(model.jnt_solref[0]) == (0.08, 1.0)
    assert tuple(model.dof_damping) == (5e-4, 2e-6)
    assert not model.jnt_limited[1]


def test_control_beyond_one_still_pushes_with_ten_newtons(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.ctrl[0] = 3.0

    mujoco.mj_forward(model, data)

    assert data.qfrc_actuator[0] == 10.0


def test_there_are_no_contacts_even_while_the_pole_crosses_the_cart(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.qpos[1] = math.pi

    mujoco.mj_forward(model, data)

    assert data.ncon == 0


def test_the_side_camera_stands_where_the_whole_rail_fits(compiled: Compile) -> None:
    model = compiled(cartpole.build(), visuals=True)

    camera = model.camera("side")
    assert tuple(camera.pos) == (0.0, -5.2, 1.6)
    assert camera.fovy[0] == 40.0
