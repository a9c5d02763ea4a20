"""Reads what drives a robot and what it measures: actuators and sensors."""

from collections.abc import Sequence

from application.robots.figures import FLOOR, Body, ContactSensor, FrameSensor, FrameType, Motor, PositionServo
from application.robots.sensor_types import CONTACT, CONTACT_FIELDS, FRAME_SENSORS
from application.robots.strict_table import StrictTable

FRAMES: tuple[FrameType, ...] = ("site", "geom", "body")


def read_actuators(top: StrictTable, joints: Sequence[str]) -> tuple[PositionServo | Motor, ...]:
    """Return the actuators in control order; each drives one of ``joints``."""
    actuators = tuple(_actuator(table, joints) for table in top.tables("actuator"))
    top.require_unique("actuator", "actuator", [actuator.name for actuator in actuators])
    return actuators


def _actuator(table: StrictTable, joints: Sequence[str]) -> PositionServo | Motor:
    name, joint = table.text("name"), table.choice("joint", tuple(joints))
    forcerange, ctrlrange = table.limits("forcerange"), table.limits("ctrlrange")
    actuator: PositionServo | Motor
    if "gear" in table:
        actuator = Motor(name=name, joint=joint, gear=table.number("gear"), forcerange=forcerange, ctrlrange=ctrlrange)
    else:
        actuator = PositionServo(
            name=name,
            joint=joint,
            kp=table.number("kp"),
            kd=table.number("kd", 0.0),
            forcerange=forcerange,
            ctrlrange=ctrlrange,
        )
    table.close()
    return actuator


def read_sensors(top: StrictTable, bodies: Sequence[Body]) -> tuple[FrameSensor | ContactSensor, ...]:
    """Return every sensor; each measures something on ``bodies``."""
    frames: dict[FrameType, tuple[str, ...]] = {
        "site": tuple(site.name for body in bodies for site in body.sites),
        "geom": tuple(geom.name for body in bodies for geom in body.geoms),
        "body": tuple(body.name for body in bodies),
    }
    sensors = tuple(_sensor(table, frames) for table in top.tables("sensor"))
    top.require_unique("sensor", "sensor", [sensor.name for sensor in sensors])
    return sensors


def _sensor(table: StrictTable, frames: dict[FrameType, tuple[str, ...]]) -> FrameSensor | ContactSensor:
    name, kind = table.text("name"), table.choice("type", (*FRAME_SENSORS, CONTACT))
    sensor: FrameSensor | ContactSensor
    if kind == CONTACT:
        sensor = ContactSensor(
            name=name,
            geom=table.choice("geom", frames["geom"]),
            against=table.choice("against", (FLOOR, *frames["geom"])),
            data=_contact_data(table),
        )
    else:
        frame = next((frame for frame in FRAMES if frame in table), "site")
        if frame not in FRAME_SENSORS[kind].frames:
            table.fail(frame, f"a {kind} sits on a {' or '.join(FRAME_SENSORS[kind].frames)}")
        target = table.choice(frame, frames[frame])
        sensor = FrameSensor(name=name, type=kind, frame=frame, target=target, cutoff=table.number("cutoff", 0.0))
    table.close()
    return sensor


def _contact_data(table: StrictTable) -> tuple[str, ...]:
    data = table.texts("data")
    for field in data:
        if field not in CONTACT_FIELDS:
            table.fail_unknown("data", "contact field", field, CONTACT_FIELDS)
    if not data or list(data) != [field for field in CONTACT_FIELDS if field in data]:
        table.fail("data", f"list each field once, in the order {', '.join(CONTACT_FIELDS)}")
    return data
