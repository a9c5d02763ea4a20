"""A two-legged box and what its index is, written by hand; shared by the tests of the MuJoCo adapter."""

import torch
from torch import Tensor

from application.robots.scene import SceneModel
from domain.physics import EntityIndex, ModelIndex, PhysicsBackend, SensorSlot, StateWrite

WALKER_MJCF = """
<mujoco model="walker">
  <compiler angle="radian"/>
  <option timestep="0.005"/>
  <worldbody>
    <camera name="side" pos="0 -2 0.6" xyaxes="1 0 0 0 0.3 1"/>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="5 5 0.1" friction="0.5 0.005 0.0001"/>
    <body name="base" pos="0 0 0.5">
      <freejoint name="root"/>
      <inertial pos="0.01 0 0.02" mass="6.921" diaginertia="0.1 0.09 0.03"/>
      <geom name="decoration" type="sphere" size="0.05" contype="0" conaffinity="0"/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05" friction="0.5 0.005 0.0001"/>
      <site name="imu" pos="0.05 0 0.02"/>
      <body name="left" pos="0 0.15 0">
        <inertial pos="0 0 -0.12" mass="1.2" diaginertia="0.006 0.006 0.001"/>
        <joint name="left_joint" axis="0 1 0" range="-1 1" damping="0.1" armature="0.01" frictionloss="0.02"/>
        <geom name="left_foot" type="capsule" size="0.04" fromto="0 0 0 0 0 -0.25" friction="0.5 0.005 0.0001"/>
      </body>
      <body name="right" pos="0 -0.15 0">
        <inertial pos="0 0 -0.12" mass="1.2" diaginertia="0.006 0.006 0.001"/>
        <joint name="right_joint" axis="0 1 0" range="-1 1" damping="0.1" armature="0.01" frictionloss="0.02"/>
        <geom name="right_foot" type="capsule" size="0.04" fromto="0 0 0 0 0 -0.25" friction="0.5 0.005 0.0001"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="right_motor" joint="right_joint" kp="30" kv="1" forcerange="-4 4"/>
    <position name="left_motor" joint="left_joint" kp="30" kv="1" forcerange="-4 4"/>
  </actuator>
  <sensor>
    <gyro name="gyro" site="imu"/>
    <framepos name="imu_pos" objtype="site" objname="imu"/>
    <contact name="left_contact" geom1="left_foot" geom2="floor" num="1" data="found force" reduce="netforce"/>
  </sensor>
  <keyframe>
    <key name="default" qpos="0 0 0.29 1 0 0 0 0.1 0.1"/>
  </keyframe>
</mujoco>
"""

WALKER = SceneModel(
    mjcf=WALKER_MJCF,
    camera="side",
    index=ModelIndex(
        nq=9,
        nv=8,
        nu=2,
        nsensordata=10,
        timestep=0.005,
        bodies=("world", "base", "left", "right"),
        joints=("root", "left_joint", "right_joint"),
        geoms=("floor", "trunk", "left_foot", "right_foot"),
        sites=("imu",),
        actuators=("right_motor", "left_motor"),
        sensors={
            "gyro": SensorSlot(name="gyro", type="gyro", adr=0, dim=3),
            "imu_pos": SensorSlot(name="imu_pos", type="framepos", adr=3, dim=3),
            "left_contact": SensorSlot(name="left_contact", type="contact", adr=6, dim=4),
        },
        default_qpos=(0.0, 0.0, 0.29, 1.0, 0.0, 0.0, 0.0, 0.1, 0.1),
        entities={
            "robot": EntityIndex(
                name="robot",
                joints=("left_joint", "right_joint"),
                qpos_adr=7,
                dof_adr=6,
                joint_range=((-1.0, 1.0), (-1.0, 1.0)),
                default_joint_pos=(0.1, 0.1),
                root_body="base",
                root_qpos_adr=0,
                root_dof_adr=0,
                bodies=("base", "left", "right"),
                geoms=("trunk", "left_foot", "right_foot"),
                sites=("imu",),
                actuators=("right_motor", "left_motor"),
                actuator_joint=("right_joint", "left_joint"),
            )
        },
    ),
)

SLIDER = SceneModel(
    mjcf="""
<mujoco>
  <option timestep="0.01" gravity="0 0 -10"/>
  <worldbody>
    <camera name="front" pos="0 -2 0"/>
    <body name="mass">
      <joint name="rail" type="slide" axis="0 0 1"/>
      <geom name="ball" size="0.1" mass="2"/>
    </body>
  </worldbody>
</mujoco>
""",
    camera="front",
    index=ModelIndex(
        nq=1,
        nv=1,
        nu=0,
        nsensordata=0,
        timestep=0.01,
        bodies=("world", "mass"),
        joints=("rail",),
        geoms=("ball",),
        sites=(),
        actuators=(),
        sensors={},
        default_qpos=(0.0,),
        entities={},
    ),
)
"""A falling mass on a rail: no actuator, no sensor."""


def rows(num_envs: int, *chosen: int) -> Tensor:
    """Return a mask of ``num_envs`` rows that is true at the chosen ones."""
    mask = torch.zeros(num_envs, dtype=torch.bool)
    mask[list(chosen)] = True
    return mask


def write_of(
    backend: PhysicsBackend,
    *,
    reset: Tensor | None = None,
    written: Tensor | None = None,
    fields: dict[str, Tensor] | None = None,
) -> StateWrite:
    """Return a write that stages the backend's present state, to be changed in place."""
    none = torch.zeros(backend.num_envs, dtype=torch.bool)
    reset = none if reset is None else reset
    return StateWrite(
        reset=reset,
        written=reset if written is None else written | reset,
        qpos=backend.state.qpos.clone(),
        qvel=backend.state.qvel.clone(),
        fields={} if fields is None else fields,
    )


def drive(backend: PhysicsBackend, steps: int, *, substeps: int = 2) -> list[Tensor]:
    """Step under a moving control that differs from env to env; return each step's qpos, qvel and sensors."""
    seen = []
    phase = torch.arange(backend.num_envs, dtype=torch.float32)[:, None] * 0.3
    joint = torch.arange(backend.index.nu, dtype=torch.float32)
    for step in range(steps):
        backend.control[:] = 0.6 * torch.sin(phase + 0.2 * step + joint)
        backend.step(substeps)
        state = backend.state
        seen.append(torch.cat([state.qpos, state.qvel, state.sensordata], dim=1))
    return seen
