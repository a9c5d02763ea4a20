"""The index computed without an engine is what MuJoCo compiles."""

import math
from collections.abc import Callable

import mujoco
import pytest

from application.robots import cartpole, g1, go2
from application.robots.builder import build_scene
from application.robots.reader import load_figures, parse_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions

Compile = Callable[..., mujoco.MjModel]


def scene_of(robot: str, toy: str) -> SceneModel:
    if robot == "cartpole":
        return cartpole.build(timestep=0.01)
    if robot == "go2":
        every = tuple(sensor.name for sensor in load_figures("go2.toml").sensors)
        return go2.build(timestep=0.01, sensors=every)
    if robot == "g1":
        figures = load_figures("g1.toml")
        every = tuple(sensor.name for sensor in figures.sensors)
        return g1.build(timestep=0.01, sensors=every, bodies=tuple(body.name for body in figures.bodies))
    options = SceneOptions(timestep=0.002, sensors=("shank_touch", "gyro", "shank_quat"))
    return build_scene(parse_figures(toy, file="toy.toml"), options)


@pytest.fixture(params=["go2", "g1", "cartpole", "toy"])
def scene(request: pytest.FixtureRequest, toy: str) -> SceneModel:
    return scene_of(request.param, toy)


def names(model: mujoco.MjModel, kind: mujoco.mjtObj, count: int) -> tuple[str, ...]:
    return tuple(mujoco.mj_id2name(model, kind, number) for number in range(count))


def test_sizes_and_time_step_are_the_compiled_ones(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    index = scene.index
    assert (index.nq, index.nv, index.nu) == (model.nq, model.nv, model.nu)
    assert index.nsensordata == model.nsensordata
    assert index.timestep == model.opt.timestep


def test_names_are_in_compiled_order(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    assert scene.index.bodies == names(model, mujoco.mjtObj.mjOBJ_BODY, model.nbody)
    assert scene.index.joints == names(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)
    assert scene.index.geoms == names(model, mujoco.mjtObj.mjOBJ_GEOM, model.ngeom)
    assert scene.index.sites == names(model, mujoco.mjtObj.mjOBJ_SITE, model.nsite)
    assert scene.index.actuators == names(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nu)
    assert tuple(scene.index.sensors) == names(model, mujoco.mjtObj.mjOBJ_SENSOR, model.nsensor)


def test_sensor_slots_are_the_compiled_ones(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    for slot in scene.index.sensors.values():
        sensor = model.sensor(slot.name)
        assert (slot.adr, slot.dim) == (sensor.adr[0], sensor.dim[0])


def test_joint_addresses_and_ranges_are_the_compiled_ones(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    robot = scene.index.entities["robot"]
    for place, name in enumerate(robot.joints):
        joint = model.joint(name)
        assert robot.qpos_adr + place == joint.qposadr[0]
        assert robot.dof_adr + place == joint.dofadr[0]
        low, high = robot.joint_range[place]
        assert (low, high) == (tuple(joint.range) if model.jnt_limited[joint.id] else (-math.inf, math.inf))


def test_actuators_drive_the_compiled_joints(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    robot = scene.index.entities["robot"]
    driven = tuple(model.joint(model.actuator_trnid[number, 0]).name for number in range(model.nu))
    assert robot.actuator_joint == driven


def test_default_state_is_the_keyframe(scene: SceneModel, compiled: Compile) -> None:
    model = compiled(scene)

    robot = scene.index.entities["robot"]
    assert scene.index.default_qpos == tuple(model.key_qpos[0])
    assert robot.default_joint_pos == scene.index.default_qpos[robot.qpos_adr :]


def test_go2_floats_and_cartpole_stands_fixed(toy: str) -> None:
    floating = scene_of("go2", toy).index.entities["robot"]
    fixed = scene_of("cartpole", toy).index.entities["robot"]

    assert (floating.root_qpos_adr, floating.root_dof_adr, floating.qpos_adr, floating.dof_adr) == (0, 0, 7, 6)
    assert (fixed.root_qpos_adr, fixed.root_dof_adr, fixed.qpos_adr, fixed.dof_adr) == (None, None, 0, 0)


def test_actuators_in_reverse_joint_order_keep_their_joints(toy: str) -> None:
    robot = scene_of("toy", toy).index.entities["robot"]

    assert robot.joints == ("left_hip", "left_knee", "right_slide")
    assert robot.actuators == ("right_motor", "knee_servo", "hip_servo")
    assert robot.actuator_joint == ("right_slide", "left_knee", "left_hip")
    assert robot.default_joint_pos == (0.2, 0.1, 0.3)
