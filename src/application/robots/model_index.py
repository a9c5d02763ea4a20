"""Computes the index that MuJoCo's compiler will agree with: depth-first bodies, addresses in joint order."""

import math
from collections.abc import Sequence

from application.robots.figures import (
    FLOOR,
    WORLD,
    ContactSensor,
    FrameSensor,
    RobotFigures,
)
from application.robots.scene_options import SceneOptions
from application.robots.sensor_types import sensor_dim, sensor_type
from domain.physics import EntityIndex, ModelIndex, SensorSlot

ENTITY = "robot"
FREE_JOINT = "root"
FREE_QPOS = 7
FREE_DOFS = 6


def build_index(
    figures: RobotFigures, options: SceneOptions, sensors: Sequence[FrameSensor | ContactSensor]
) -> ModelIndex:
    """Number what the scene holds; ``sensors`` are the emitted ones in order."""
    entity = _entity(figures)
    slots = _slots(sensors)
    floating = entity.root_qpos_adr is not None
    return ModelIndex(
        nq=entity.qpos_adr + len(entity.joints),
        nv=entity.dof_adr + len(entity.joints),
        nu=len(entity.actuators),
        nsensordata=sum(slot.dim for slot in slots),
        timestep=options.timestep,
        bodies=(WORLD, *entity.bodies),
        joints=((FREE_JOINT,) if floating else ()) + entity.joints,
        geoms=((FLOOR,) if options.floor else ()) + entity.geoms,
        sites=entity.sites,
        actuators=entity.actuators,
        sensors={slot.name: slot for slot in slots},
        default_qpos=_root_pose(figures) + entity.default_joint_pos,
        entities={entity.name: entity},
    )


def _entity(figures: RobotFigures) -> EntityIndex:
    bodies = tuple(figures.kinematic_order())
    joints = [body.joint for body in bodies if body.joint]
    floating = figures.root.freejoint
    return EntityIndex(
        name=ENTITY,
        joints=tuple(joint.name for joint in joints),
        qpos_adr=FREE_QPOS if floating else 0,
        dof_adr=FREE_DOFS if floating else 0,
        joint_range=tuple(joint.range or (-math.inf, math.inf) for joint in joints),
        default_joint_pos=tuple(figures.keyframe.joint_pos[joint.name] for joint in joints),
        root_body=figures.root.name,
        root_qpos_adr=0 if floating else None,
        root_dof_adr=0 if floating else None,
        bodies=tuple(body.name for body in bodies),
        geoms=tuple(geom.name for body in bodies for geom in body.geoms),
        sites=tuple(site.name for body in bodies for site in body.sites),
        actuators=tuple(actuator.name for actuator in figures.actuators),
        actuator_joint=tuple(actuator.joint for actuator in figures.actuators),
    )


def _root_pose(figures: RobotFigures) -> tuple[float, ...]:
    return (*(figures.keyframe.root_pos or ()), *(figures.keyframe.root_quat or ()))


def _slots(sensors: Sequence[FrameSensor | ContactSensor]) -> list[SensorSlot]:
    slots: list[SensorSlot] = []
    adr = 0
    for sensor in sensors:
        slots.append(SensorSlot(name=sensor.name, type=sensor_type(sensor), adr=adr, dim=sensor_dim(sensor)))
        adr += slots[-1].dim
    return slots
