"""The sensor elements that a robot may carry, with what they are mounted on and how many values they give."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from application.robots.figures import ContactSensor, FrameSensor, FrameType

CONTACT = "contact"


@dataclass(frozen=True, kw_only=True)
class FrameSensorType:
    """What a sensor of one frame is mounted on and how many values it gives."""

    frames: tuple[FrameType, ...]
    dim: int


_SITE: tuple[FrameType, ...] = ("site",)
_ANY: tuple[FrameType, ...] = ("site", "geom", "body")

FRAME_SENSORS: Mapping[str, FrameSensorType] = MappingProxyType(
    {
        "gyro": FrameSensorType(frames=_SITE, dim=3),
        "accelerometer": FrameSensorType(frames=_SITE, dim=3),
        "velocimeter": FrameSensorType(frames=_SITE, dim=3),
        "framepos": FrameSensorType(frames=_ANY, dim=3),
        "framequat": FrameSensorType(frames=_ANY, dim=4),
        "framezaxis": FrameSensorType(frames=_ANY, dim=3),
        "framelinvel": FrameSensorType(frames=_ANY, dim=3),
        "frameangvel": FrameSensorType(frames=_ANY, dim=3),
    }
)
"""By MJCF element name."""

CONTACT_FIELDS: Mapping[str, int] = MappingProxyType(
    {"found": 1, "force": 3, "torque": 3, "dist": 1, "pos": 3, "normal": 3, "tangent": 3}
)
"""Contact field to its number of values, in MuJoCo's order."""


def sensor_type(sensor: FrameSensor | ContactSensor) -> str:
    """Return the MJCF element name."""
    return CONTACT if isinstance(sensor, ContactSensor) else sensor.type


def sensor_dim(sensor: FrameSensor | ContactSensor) -> int:
    """Return how many values the sensor gives."""
    if isinstance(sensor, ContactSensor):
        return sum(CONTACT_FIELDS[field] for field in sensor.data)
    return FRAME_SENSORS[sensor.type].dim
