"""Writes MJCF from figures: the physical part, every number with full precision.

Collision geoms carry names; drawn shapes have none, collide with nothing, weigh nothing, and vanish under
``discard_visual``. A body that has drawn shapes hides its collision geoms (group 3), another shows them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from application.robots.figures import (
    FLOOR,
    Body,
    ContactSensor,
    FrameSensor,
    Geom,
    Joint,
    Mesh,
    Motor,
    PositionServo,
    Range,
    RobotFigures,
    Visual,
)
from application.robots.mjcf_look import FLOOR_MATERIAL, add_assets, add_camera, add_light, add_quality
from application.robots.mjcf_numbers import numbers
from application.robots.model_index import FREE_JOINT
from application.robots.scene_options import SceneOptions
from application.robots.sensor_types import sensor_type
from domain.physics import ModelIndex

SHOWN_COLLISION_GROUP = "1"
VISUAL_GROUP = "2"
HIDDEN_COLLISION_GROUP = "3"


def write_mjcf(
    figures: RobotFigures,
    options: SceneOptions,
    sensors: Sequence[FrameSensor | ContactSensor],
    index: ModelIndex,
    meshes: Mapping[str, Path] | None = None,
) -> str:
    """Return an MJCF document whose element order is that of ``index``.

    It refers to the files of ``meshes``, by mesh name, which are drawn in place of simple shapes; without them it is
    self-contained.
    """
    meshes = meshes or {}
    top = Element("mujoco", model=figures.file.removesuffix(".toml"))
    SubElement(top, "compiler", angle="radian", autolimits="true")
    _add_option(top, options)
    add_quality(top, figures)
    add_assets(top, figures, meshes)
    world = SubElement(top, "worldbody")
    if options.floor:
        pos = numbers((0.0, 0.0, options.floor_height))
        SubElement(world, "geom", name=FLOOR, type="plane", pos=pos, size="0 0 0.05", material=FLOOR_MATERIAL)
    for visual in figures.scenery:
        _add_visual(world, visual)
    _add_body(world, figures, figures.root, meshes)
    _add_excludes(top, figures)
    _add_actuators(top, figures)
    _add_sensors(top, sensors)
    _add_keyframe(top, figures, index)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode") + "\n"


def _add_option(top: Element, options: SceneOptions) -> None:
    option = SubElement(
        top,
        "option",
        timestep=repr(options.timestep),
        integrator=options.integrator,
        solver="Newton",
        cone=options.cone,
        impratio=repr(options.impratio),
        iterations=str(options.iterations),
        ls_iterations=str(options.ls_iterations),
    )
    SubElement(option, "flag", contact="enable" if options.contacts else "disable")


def _add_body(parent: Element, figures: RobotFigures, body: Body, meshes: Mapping[str, Path]) -> None:
    element = SubElement(parent, "body", name=body.name, pos=numbers(body.pos), quat=numbers(body.quat))
    if body is figures.root:
        add_light(element if body.freejoint else parent, follow=body.freejoint)
        add_camera(element if figures.camera.follow else parent, figures.camera)
    if body.inertial:
        SubElement(
            element,
            "inertial",
            pos=numbers(body.inertial.pos),
            quat=numbers(body.inertial.quat),
            mass=repr(body.inertial.mass),
            diaginertia=numbers(body.inertial.diaginertia),
        )
    if body.freejoint:
        SubElement(element, "freejoint", name=FREE_JOINT)
    if body.joint:
        _add_joint(element, body.joint)
    for geom in body.geoms:
        _add_geom(element, geom, HIDDEN_COLLISION_GROUP if body.visuals else SHOWN_COLLISION_GROUP)
    for visual in body.visuals:
        if visual.mesh not in meshes:
            _add_visual(element, visual)
    for mesh in body.meshes:
        if mesh.name in meshes:
            _add_mesh(element, mesh)
    for site in body.sites:
        SubElement(element, "site", name=site.name, pos=numbers(site.pos), quat=numbers(site.quat), group="4")
    for child in figures.children(body.name):
        _add_body(element, figures, child, meshes)


def _add_joint(body: Element, joint: Joint) -> None:
    element = SubElement(
        body,
        "joint",
        name=joint.name,
        type=joint.type,
        axis=numbers(joint.axis),
        armature=repr(joint.armature),
        damping=repr(joint.damping),
        frictionloss=repr(joint.frictionloss),
    )
    _set_range(element, "range", joint.range)
    if joint.solreflimit:
        element.set("solreflimit", numbers(joint.solreflimit))


def _add_geom(body: Element, geom: Geom, group: str) -> None:
    SubElement(
        body,
        "geom",
        name=geom.name,
        type=geom.type,
        size=numbers(geom.size),
        pos=numbers(geom.pos),
        quat=numbers(geom.quat),
        mass=repr(geom.mass),
        friction=numbers(geom.friction),
        condim=str(geom.condim),
        priority=str(geom.priority),
        contype=str(geom.contype),
        conaffinity=str(geom.conaffinity),
        margin=repr(geom.margin),
        group=group,
    )


def _add_visual(body: Element, visual: Visual) -> None:
    SubElement(
        body,
        "geom",
        type=visual.type,
        size=numbers(visual.size),
        pos=numbers(visual.pos),
        quat=numbers(visual.quat),
        mass="0",
        contype="0",
        conaffinity="0",
        group=VISUAL_GROUP,
        material=visual.color,
    )


def _add_mesh(body: Element, mesh: Mesh) -> None:
    SubElement(
        body,
        "geom",
        type="mesh",
        mesh=mesh.name,
        pos=numbers(mesh.pos),
        quat=numbers(mesh.quat),
        mass="0",
        contype="0",
        conaffinity="0",
        group=VISUAL_GROUP,
        material=mesh.color,
    )


def _add_excludes(top: Element, figures: RobotFigures) -> None:
    contact = SubElement(top, "contact")
    for first, second in figures.excludes:
        SubElement(contact, "exclude", body1=first, body2=second)


def _add_actuators(top: Element, figures: RobotFigures) -> None:
    group = SubElement(top, "actuator")
    for actuator in figures.actuators:
        if isinstance(actuator, Motor):
            element = SubElement(group, "motor", name=actuator.name, joint=actuator.joint, gear=repr(actuator.gear))
        else:
            element = _add_servo(group, actuator)
        _set_range(element, "forcerange", actuator.forcerange)
        _set_range(element, "ctrlrange", actuator.ctrlrange)


def _add_servo(group: Element, servo: PositionServo) -> Element:
    # ``position`` compiles to gainprm[0] = -biasprm[1] = kp and biasprm[2] = -kd, the entries that gain
    # randomisation overwrites.
    return SubElement(group, "position", name=servo.name, joint=servo.joint, kp=repr(servo.kp), kv=repr(servo.kd))


def _set_range(element: Element, key: str, limits: Range | None) -> None:
    if limits:
        element.set(key, numbers(limits))


def _add_sensors(top: Element, sensors: Sequence[FrameSensor | ContactSensor]) -> None:
    group = SubElement(top, "sensor")
    for sensor in sensors:
        element = SubElement(group, sensor_type(sensor), name=sensor.name)
        if isinstance(sensor, ContactSensor):
            element.attrib |= {"geom1": sensor.against, "geom2": sensor.geom, "data": " ".join(sensor.data)}
            element.attrib |= {"num": "1", "reduce": "mindist"}
            continue
        if sensor.type.startswith("frame"):
            # "body" would be the inertial frame; "xbody" is the frame that the figures state.
            kind = "xbody" if sensor.frame == "body" else sensor.frame
            element.attrib |= {"objtype": kind, "objname": sensor.target}
        else:
            element.set("site", sensor.target)
        if sensor.cutoff:
            element.set("cutoff", repr(sensor.cutoff))


def _add_keyframe(top: Element, figures: RobotFigures, index: ModelIndex) -> None:
    control = [
        figures.keyframe.joint_pos[actuator.joint] if isinstance(actuator, PositionServo) else 0.0
        for actuator in figures.actuators
    ]
    group = SubElement(top, "keyframe")
    key = SubElement(group, "key", name=figures.keyframe.name, qpos=numbers(index.default_qpos))
    if control:
        key.set("ctrl", numbers(control))
