"""Published facts of the G1, measured on the compiled model."""

import math
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from application.robots import g1
from application.robots.reader import load_figures

Compile = Callable[..., mujoco.MjModel]
SENSOR = mujoco.mjtSensor

# name, low, high, default, kp, kd, force limit
LEG = [
    ("hip_pitch", -2.5307, 2.8798, -0.312, 40.179, 2.558, 88.0),
    ("hip_roll", -0.5236, 2.9671, 0.0, 99.098, 6.309, 139.0),
    ("hip_yaw", -2.7576, 2.7576, 0.0, 40.179, 2.558, 88.0),
    ("knee", -0.087267, 2.8798, 0.669, 99.098, 6.309, 139.0),
    ("ankle_pitch", -0.87267, 0.5236, -0.363, 28.501, 1.814, 50.0),
    ("ankle_roll", -0.2618, 0.2618, 0.0, 28.501, 1.814, 50.0),
]
WAIST = [
    ("waist_yaw", -2.618, 2.618, 0.0, 40.179, 2.558, 88.0),
    ("waist_roll", -0.52, 0.52, 0.0, 28.501, 1.814, 50.0),
    ("waist_pitch", -0.52, 0.52, 0.0, 28.501, 1.814, 50.0),
]
ARM = [
    ("shoulder_pitch", -3.0892, 2.6704, 0.2, 14.251, 0.907, 25.0),
    ("shoulder_roll", -1.5882, 2.2515, 0.2, 14.251, 0.907, 25.0),
    ("shoulder_yaw", -2.618, 2.618, 0.0, 14.251, 0.907, 25.0),
    ("elbow", -1.0472, 2.0944, 0.6, 14.251, 0.907, 25.0),
    ("wrist_roll", -1.97222, 1.97222, 0.0, 14.251, 0.907, 25.0),
    ("wrist_pitch", -1.61443, 1.61443, 0.0, 16.778, 1.068, 5.0),
    ("wrist_yaw", -1.61443, 1.61443, 0.0, 16.778, 1.068, 5.0),
]
Row = tuple[str, float, float, float, float, float, float]


def limb(side: str, rows: list[Row]) -> list[Row]:
    """Name a limb's joints; roll, the only range that differs between the sides, is mirrored on the right."""
    mirrored: list[Row] = []
    for name, low, high, default, kp, kd, force in rows:
        if side == "right" and name in ("hip_roll", "shoulder_roll"):
            low, high, default = -high, -low, -default
        mirrored.append((f"{side}_{name}", low, high, default, kp, kd, force))
    return mirrored


TABLE = limb("left", LEG) + limb("right", LEG) + WAIST + limb("left", ARM) + limb("right", ARM)


def at_stand(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return data


def test_sizes_and_mass(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    assert (model.nq, model.nv, model.nu, model.nbody) == (36, 35, 29, 31)
    assert model.body_mass.sum() == pytest.approx(33.34114, abs=5e-6)
    assert model.opt.timestep == 1 / 150


def test_it_stands_with_36_contacts_and_173_constraint_rows(compiled: Compile) -> None:
    data = at_stand(compiled(g1.build(timestep=1 / 150)))

    assert (data.ncon, data.nefc) == (36, 173)
    assert list(data.qpos[:7]) == [0.0, 0.0, 0.754, 1.0, 0.0, 0.0, 0.0]


def test_joints_and_actuators_have_the_order_of_the_table(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    names = [f"{row[0]}_joint" for row in TABLE]
    assert [model.joint(number).name for number in range(1, model.njnt)] == names
    assert [model.actuator(number).name for number in range(model.nu)] == names
    assert list(model.actuator_trnid[:, 0]) == list(range(1, 30))


def test_joints_have_the_ranges_and_defaults_of_the_table(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    np.testing.assert_array_equal(model.jnt_range[1:], [row[1:3] for row in TABLE])
    assert model.jnt_limited[1:].all()
    np.testing.assert_array_equal(model.key_qpos[0, 7:], [row[3] for row in TABLE])
    np.testing.assert_array_equal(model.key_ctrl[0], [row[3] for row in TABLE])
    assert set(model.dof_armature[6:]) == {0.01}
    assert set(model.dof_frictionloss[6:]) == {0.3}
    assert set(model.dof_damping) == {0.0}


def test_servos_have_the_gains_and_force_limits_of_the_table_and_no_control_limit(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    np.testing.assert_array_equal(model.actuator_gainprm[:, 0], [row[4] for row in TABLE])
    np.testing.assert_array_equal(model.actuator_biasprm[:, 1], [-row[4] for row in TABLE])
    np.testing.assert_array_equal(model.actuator_biasprm[:, 2], [-row[5] for row in TABLE])
    np.testing.assert_array_equal(model.actuator_forcerange, [(-row[6], row[6]) for row in TABLE])
    assert not model.actuator_ctrllimited.any()


def test_solver_is_pyramidal_newton_with_bounded_effort(compiled: Compile) -> None:
    option = compiled(g1.build(timestep=1 / 150)).opt

    assert option.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    assert option.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert (option.impratio, option.iterations, option.ls_iterations) == (1.0, 15, 20)


@pytest.mark.parametrize("side", g1.FEET)
def test_a_sole_is_four_spheres_that_win_over_seven_capsules(compiled: Compile, side: str) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    width = [(-0.05, 0.025), (-0.05, -0.025), (0.12, 0.03), (0.12, -0.03)]
    for corner, (x, y) in enumerate(width):
        sphere = model.geom(f"{side}_foot_contact_{corner}_geom")
        assert (sphere.type[0], sphere.size[0], tuple(sphere.pos)) == (
            mujoco.mjtGeom.mjGEOM_SPHERE,
            0.005,
            (x, y, -0.03),
        )
        assert (sphere.priority[0], sphere.condim[0], sphere.friction[0]) == (1, 3, 0.6)
    for number in range(1, 8):
        capsule = model.geom(f"{side}_foot{number}_collision")
        assert (capsule.type[0], capsule.size[0]) == (mujoco.mjtGeom.mjGEOM_CAPSULE, 0.01)
        assert (capsule.priority[0], capsule.condim[0], capsule.friction[0]) == (0, 3, 0.6)


def test_the_robot_collides_with_itself_except_for_four_pairs_of_bodies(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    pairs = {(model.body(number >> 16).name, model.body(number & 0xFFFF).name) for number in model.exclude_signature}
    assert {tuple(sorted(pair)) for pair in pairs} == {
        ("left_hip_roll_link", "pelvis"),
        ("pelvis", "right_hip_roll_link"),
        ("left_elbow_link", "left_wrist_pitch_link"),
        ("right_elbow_link", "right_wrist_pitch_link"),
    }
    assert (model.geom_contype == 1).all()
    assert (model.geom_conaffinity == 1).all()


@pytest.mark.parametrize(
    ("sensor", "kind", "target", "dim", "cutoff"),
    [
        ("pelvis_local_linvel", SENSOR.mjSENS_VELOCIMETER, "imu_in_pelvis", 3, 0.0),
        ("pelvis_gyro", SENSOR.mjSENS_GYRO, "imu_in_pelvis", 3, 34.9),
        ("pelvis_acceleration", SENSOR.mjSENS_ACCELEROMETER, "imu_in_pelvis", 3, 0.0),
        ("pelvis_upvector", SENSOR.mjSENS_FRAMEZAXIS, "imu_in_pelvis", 3, 0.0),
        ("torso_gyro", SENSOR.mjSENS_GYRO, "imu_in_torso", 3, 34.9),
        ("torso_acceleration", SENSOR.mjSENS_ACCELEROMETER, "imu_in_torso", 3, 0.0),
        ("torso_upvector", SENSOR.mjSENS_FRAMEZAXIS, "imu_in_torso", 3, 0.0),
        ("left_foot_pos", SENSOR.mjSENS_FRAMEPOS, "left_foot", 3, 0.0),
        ("right_foot_quat", SENSOR.mjSENS_FRAMEQUAT, "right_foot", 4, 0.0),
        ("left_foot_upvector", SENSOR.mjSENS_FRAMEZAXIS, "left_foot", 3, 0.0),
    ],
)
def test_a_sensor_measures_its_site(
    compiled: Compile, sensor: str, kind: mujoco.mjtSensor, target: str, dim: int, cutoff: float
) -> None:
    model = compiled(g1.build(timestep=1 / 150, sensors=(sensor,)))

    found = model.sensor(sensor)
    assert found.type[0] == kind
    assert (model.site(found.objid[0]).name, found.dim[0], found.cutoff[0]) == (target, dim, cutoff)


def test_sites_are_where_they_are_published(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150))

    assert tuple(model.site("imu_in_pelvis").pos) == (0.04525, 0.0, -0.08339)
    assert tuple(model.site("imu_in_torso").pos) == (-0.03959, -0.00224, 0.14792)
    assert tuple(model.site("left_foot").pos) == tuple(model.site("right_foot").pos) == (0.04, 0.0, -0.037)


def test_walking_reads_31_values_and_every_corner_of_a_foot_finds_the_floor_at_stand(compiled: Compile) -> None:
    scene = g1.build(timestep=1 / 150)

    data = at_stand(compiled(scene))

    corners = [scene.index.sensors[f"{foot}_foot_contact_{corner}"] for foot in g1.FEET for corner in range(4)]
    assert scene.index.nsensordata == 31
    assert [(slot.type, slot.dim, data.sensordata[slot.adr]) for slot in corners] == [("contact", 1, 1.0)] * 8


def test_in_the_air_no_corner_finds_the_floor(compiled: Compile) -> None:
    scene = g1.build(timestep=1 / 150)
    model = compiled(scene)
    data = at_stand(model)

    data.qpos[2] += 0.5
    mujoco.mj_forward(model, data)

    assert data.sensordata[scene.index.sensors["left_foot_contact_0"].adr :].sum() == 0.0


def test_the_state_of_every_body_is_that_of_its_own_frame_in_the_world(compiled: Compile) -> None:
    names = tuple(body.name for body in load_figures("g1.toml").kinematic_order())
    scene = g1.build(timestep=1 / 150, bodies=names)
    model = compiled(scene)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(3)
    data.qpos[:] = model.key_qpos[0] + rng.uniform(-0.4, 0.4, model.nq)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qvel[:] = rng.normal(size=model.nv)

    mujoco.mj_forward(model, data)

    velocity = np.zeros(6)
    for name in names:
        body = model.body(name).id
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
        read = {kind: data.sensor(f"{name}_{kind}").data for kind in ("pos", "quat", "linvel", "angvel")}
        np.testing.assert_allclose(read["pos"], data.xpos[body], atol=1e-12)
        np.testing.assert_allclose(read["quat"], data.xquat[body], atol=1e-12)
        np.testing.assert_allclose(read["linvel"], velocity[3:], atol=1e-12)
        np.testing.assert_allclose(read["angvel"], velocity[:3], atol=1e-12)


def test_each_quantity_of_the_bodies_is_one_block_after_the_sensors() -> None:
    index = g1.build(timestep=1 / 150, bodies=("pelvis", "torso_link")).index

    adr = [
        index.sensors[f"{body}_{kind}"].adr
        for kind in ("pos", "quat", "linvel", "angvel")
        for body in ("pelvis", "torso_link")
    ]
    assert adr == [31, 34, 37, 41, 45, 48, 51, 54]
    assert index.nsensordata == 57


def test_drawn_shapes_weigh_nothing_collide_with_nothing_and_hide_what_collides(compiled: Compile) -> None:
    scene = g1.build(timestep=1 / 150)
    bare, full = compiled(scene), compiled(scene, visuals=True)

    drawn = full.geom_group == 2
    assert drawn.sum() == full.ngeom - bare.ngeom > 100
    assert not full.geom_contype[drawn].any()
    assert not full.geom_conaffinity[drawn].any()
    np.testing.assert_array_equal(full.body_mass, bare.body_mass)
    np.testing.assert_array_equal(full.body_inertia, bare.body_inertia)
    assert set(full.geom_group[~drawn]) == {0, 3}  # 0 is the floor
    assert (np.bincount(full.geom_bodyid[drawn], minlength=31)[1:] > 0).all()


def test_the_drawn_robot_is_mirrored_and_stands_on_the_floor(compiled: Compile) -> None:
    model = compiled(g1.build(timestep=1 / 150), visuals=True)
    data = at_stand(model)

    geoms = np.flatnonzero(model.geom_group == 2)
    centres = {tuple(np.round(data.geom_xpos[number], 3)) for number in geoms}
    near = [min(math.dist((x, -y, z), other) for other in centres) for x, y, z in centres]
    assert max(near) < 0.003
    soles = [number for number in geoms if model.body(model.geom_bodyid[number]).name.endswith("ankle_roll_link")]
    half_heights = [np.abs(data.geom_xmat[number][6:]) @ model.geom_aabb[number][3:] for number in soles]
    lowest = min(data.geom_xpos[soles, 2] - half_heights)
    assert -0.006 < lowest < 0.0


def test_the_camera_sees_the_whole_robot_and_room_around_it(compiled: Compile) -> None:
    scene = g1.build(timestep=1 / 150)
    model = compiled(scene, visuals=True)
    data = at_stand(model)

    camera = model.camera(scene.camera).id
    axes = data.cam_xmat[camera].reshape(3, 3)
    half = math.tan(math.radians(model.cam_fovy[camera]) / 2)
    for point in ((0.0, 0.0, 1.3), (0.13, 0.12, 0.0), (-0.06, -0.12, 0.0)):
        right, up, back = axes.T @ (np.array(point) - data.cam_xpos[camera])
        assert abs(up / -back) < 0.85 * half
        assert abs(right / -back) < 0.85 * half
