"""Published facts of the Go2, measured on the compiled model."""

from collections.abc import Callable

import mujoco
import pytest

from application.robots import go2

Compile = Callable[..., mujoco.MjModel]


def at_home(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return data


def test_sizes_and_mass(compiled: Compile) -> None:
    model = compiled(go2.build(timestep=0.01))

    assert (model.nq, model.nv, model.nu) == (19, 18, 12)
    assert model.body_mass.sum() == pytest.approx(15.206, abs=5e-4)


def test_it_stands_at_home_on_four_feet_with_36_constraint_rows(compiled: Compile) -> None:
    data = at_home(compiled(go2.build(timestep=0.01)))

    assert (data.ncon, data.nefc) == (4, 36)
    assert data.qpos[2] == 0.3


def test_each_foot_sensor_finds_one_contact_at_home(compiled: Compile) -> None:
    scene = go2.build(timestep=0.01)

    data = at_home(compiled(scene))

    slots = [scene.index.sensors[f"{leg}_foot_contact"] for leg in go2.LEGS]
    assert [(slot.dim, data.sensordata[slot.adr]) for slot in slots] == [(1, 1.0)] * 4


def test_joints_run_left_first_and_actuators_right_first() -> None:
    robot = go2.build(timestep=0.01).index.entities["robot"]

    assert [joint[:2] for joint in robot.joints[::3]] == ["FL", "FR", "RL", "RR"]
    assert [actuator[:2] for actuator in robot.actuators[::3]] == ["FR", "FL", "RR", "RL"]
    assert robot.default_joint_pos == (0.0, 0.8, -1.5, 0.0, 0.8, -1.5, 0.0, 1.0, -1.5, 0.0, 1.0, -1.5)


def test_robot_geoms_collide_with_the_floor_only(compiled: Compile) -> None:
    model = compiled(go2.build(timestep=0.01))

    bits = {(int(a), int(b)) for a, b in zip(model.geom_contype[1:], model.geom_conaffinity[1:], strict=True)}
    assert bits == {(1, 2)}
    assert (model.geom("floor").contype[0], model.geom("floor").conaffinity[0]) == (1, 1)


def test_foot_and_other_geoms_have_their_contact_figures(compiled: Compile) -> None:
    model = compiled(go2.build(timestep=0.01))

    foot, calf, floor = model.geom("FL"), model.geom("FL_calf_geom1"), model.geom("floor")
    assert (foot.priority[0], foot.condim[0], tuple(foot.friction)) == (1, 6, (0.4, 0.02, 0.01))
    assert (calf.priority[0], calf.condim[0], tuple(calf.friction)) == (0, 1, (0.6, 0.005, 0.0001))
    assert (floor.priority[0], floor.condim[0], tuple(floor.friction)) == (0, 3, (1.0, 0.005, 0.0001))
    assert foot.margin[0] == calf.margin[0] == 0.001


def test_servos_have_kp_35_no_damping_and_their_force_limits(compiled: Compile) -> None:
    model = compiled(go2.build(timestep=0.01))

    assert set(model.actuator_gainprm[:, 0]) == {35.0}
    assert set(model.actuator_biasprm[:, 2]) == {0.0}
    assert [high for _, high in model.actuator_forcerange[:3]] == [23.7, 23.7, 45.43]
    assert not model.actuator_ctrllimited.any()
    assert set(model.dof_damping[6:]) == {0.5}


def test_solver_is_elliptic_newton_with_impratio_100(compiled: Compile) -> None:
    model = compiled(go2.build(timestep=0.01))

    assert model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
    assert model.opt.impratio == 100.0
