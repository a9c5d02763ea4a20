"""Building a scene: sensors, servos, and drawn shapes that leave the physics alone."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from application.robots import cartpole, g1, go2
from application.robots.builder import build_scene
from application.robots.reader import parse_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions
from domain.errors import ConfigurationError

Compile = Callable[..., mujoco.MjModel]
SCENES = pytest.mark.parametrize(
    "scene", [go2.build(timestep=0.01), g1.build(timestep=0.01), cartpole.build()], ids=["go2", "g1", "cartpole"]
)


def build_toy(toy: str, options: SceneOptions | None = None) -> SceneModel:
    return build_scene(parse_figures(toy, file="toy.toml"), options or SceneOptions(timestep=0.01))


def test_only_the_asked_sensors_are_emitted_in_the_asked_order(toy: str) -> None:
    scene = build_toy(toy, SceneOptions(timestep=0.01, sensors=("shank_touch", "gyro")))

    slots = [(slot.name, slot.type, slot.adr, slot.dim) for slot in scene.index.sensors.values()]
    assert slots == [("shank_touch", "contact", 0, 4), ("gyro", "gyro", 4, 3)]


def test_an_unknown_sensor_is_refused_with_the_nearest_name(toy: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown sensor 'gyros': did you mean 'gyro'?"):
        build_toy(toy, SceneOptions(timestep=0.01, sensors=("gyros",)))


def test_a_sensor_named_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sensors names gyro more than once"):
        SceneOptions(timestep=0.01, sensors=("gyro", "gyro"))


def test_a_floor_sensor_without_a_floor_is_refused(toy: str) -> None:
    with pytest.raises(ConfigurationError, match="'shank_touch' needs the floor"):
        build_toy(toy, SceneOptions(timestep=0.01, sensors=("shank_touch",), floor=False))


def test_the_state_of_bodies_follows_the_sensors_one_quantity_after_the_other(toy: str) -> None:
    scene = build_toy(toy, SceneOptions(timestep=0.01, sensors=("gyro",), bodies=("right", "trunk")))

    slots = [(slot.name, slot.type, slot.adr, slot.dim) for slot in scene.index.sensors.values()]
    assert slots == [
        ("gyro", "gyro", 0, 3),
        ("right_pos", "framepos", 3, 3),
        ("trunk_pos", "framepos", 6, 3),
        ("right_quat", "framequat", 9, 4),
        ("trunk_quat", "framequat", 13, 4),
        ("right_linvel", "framelinvel", 17, 3),
        ("trunk_linvel", "framelinvel", 20, 3),
        ("right_angvel", "frameangvel", 23, 3),
        ("trunk_angvel", "frameangvel", 26, 3),
    ]


def test_an_unknown_body_is_refused_with_the_nearest_name(toy: str) -> None:
    with pytest.raises(ConfigurationError, match="toy.toml: unknown body 'left_shan': did you mean 'left_shank'?"):
        build_toy(toy, SceneOptions(timestep=0.01, bodies=("trunk", "left_shan")))


def test_a_body_named_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bodies names trunk more than once: name each body once"):
        SceneOptions(timestep=0.01, bodies=("trunk", "trunk"))


def test_a_sensor_with_the_name_of_a_bodys_state_is_refused(toy: str) -> None:
    options = SceneOptions(timestep=0.01, sensors=("shank_quat",), bodies=("shank",))

    with pytest.raises(ConfigurationError, match="2 sensors 'shank_quat': leave it out of sensors"):
        build_toy(toy.replace('"left_shank"', '"shank"'), options)


@pytest.mark.parametrize("timestep", [0.0, -0.01, float("nan"), float("inf")])
def test_a_time_step_that_is_not_positive_is_refused(timestep: float) -> None:
    with pytest.raises(ConfigurationError, match="give a positive number of seconds"):
        SceneOptions(timestep=timestep)


def test_without_a_floor_the_first_geom_is_the_robots(toy: str, compiled: Compile) -> None:
    scene = build_toy(toy, SceneOptions(timestep=0.01, floor=False))

    assert scene.index.geoms[0] == "trunk"
    assert compiled(scene).ngeom == 4


def test_servo_gains_are_where_randomisation_writes_them(toy: str, compiled: Compile) -> None:
    model = compiled(build_toy(toy))

    knee = model.actuator("knee_servo").id
    assert model.actuator_gainprm[knee, 0] == 20.0
    assert tuple(model.actuator_biasprm[knee, :3]) == (0.0, -20.0, -2.0)


def test_zero_ranges_are_unlimited_and_others_exact(toy: str, compiled: Compile) -> None:
    model = compiled(build_toy(toy))

    hip, knee = model.actuator("hip_servo").id, model.actuator("knee_servo").id
    assert not model.actuator_forcelimited[hip]
    assert tuple(model.actuator_ctrlrange[hip]) == (-1.0, 1.0)
    assert tuple(model.actuator_forcerange[knee]) == (-5.0, 5.0)
    assert not model.actuator_ctrllimited[knee]


def test_solver_options_reach_the_compiled_model(toy: str, compiled: Compile) -> None:
    options = SceneOptions(
        timestep=0.01,
        contacts=False,
        integrator="implicitfast",
        cone="elliptic",
        impratio=10.0,
        iterations=7,
        ls_iterations=9,
    )

    model = compiled(build_toy(toy, options))

    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert (model.opt.impratio, model.opt.iterations, model.opt.ls_iterations) == (10.0, 7, 9)
    assert model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT


def test_excluded_bodies_are_compiled(toy: str, compiled: Compile) -> None:
    model = compiled(build_toy(toy))

    first, second = model.body("left_thigh").id, model.body("right").id
    assert list(model.exclude_signature) == [(first << 16) + second]


@SCENES
def test_drawn_shapes_leave_a_hundred_steps_bit_identical(scene: SceneModel, compiled: Compile) -> None:
    states = []
    for visuals in (False, True):
        model = compiled(scene, visuals=visuals)
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        start = data.ctrl.copy()
        for step in range(100):
            data.ctrl[:] = start + 0.3 * np.sin(np.arange(model.nu) + 0.2 * step)
            mujoco.mj_step(model, data)
        states.append((data.qpos.tobytes(), data.qvel.tobytes(), data.sensordata.tobytes()))

    assert states[0] == states[1]


@SCENES
def test_the_camera_exists_and_frames_up_to_full_hd_fit(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene, visuals=True)

    assert model.camera(scene.camera).id == 0
    assert (model.vis.global_.offwidth, model.vis.global_.offheight) == (1920, 1080)
    assert model.vis.quality.shadowsize == 1024
