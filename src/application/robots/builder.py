"""Turns a robot's figures and scene options into a scene: MJCF text and its index."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from application.robots.figures import FLOOR, ContactSensor, FrameSensor, RobotFigures
from application.robots.mesh_files import find_meshes
from application.robots.mjcf import write_mjcf
from application.robots.model_index import build_index
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions
from domain.errors import ConfigurationError, unknown_name

BODY_STATE: Mapping[str, str] = MappingProxyType(
    {"pos": "framepos", "quat": "framequat", "linvel": "framelinvel", "angvel": "frameangvel"}
)
"""The sensors of one body's state: the end of the name to the MJCF element, in the order of ``sensordata``."""


def build_scene(figures: RobotFigures, options: SceneOptions) -> SceneModel:
    """Build the scene of one robot; the entity is called ``robot``.

    Raises:
        ConfigurationError: A sensor or body that the robot lacks, a sensor that needs the absent floor, or a folder
            without one of the robot's meshes.
    """
    sensors = [*_select_sensors(figures, options), *_body_sensors(figures, options)]
    _require_one_each(sensors)
    meshes = find_meshes(figures, options.mesh_dir) if options.mesh_dir is not None else None
    index = build_index(figures, options, sensors)
    return SceneModel(
        mjcf=write_mjcf(figures, options, sensors, index),
        drawn=write_mjcf(figures, options, sensors, index, meshes) if meshes else None,
        index=index,
        camera=figures.camera.name,
    )


def _select_sensors(figures: RobotFigures, options: SceneOptions) -> list[FrameSensor | ContactSensor]:
    known = {sensor.name: sensor for sensor in figures.sensors}
    selected = []
    for name in options.sensors:
        if name not in known:
            raise ConfigurationError(f"{figures.file}: {unknown_name('sensor', name, known)}")
        sensor = known[name]
        if isinstance(sensor, ContactSensor) and sensor.against == FLOOR and not options.floor:
            raise ConfigurationError(f"sensor '{name}' needs the floor: set floor to true or leave the sensor out")
        selected.append(sensor)
    return selected


def _body_sensors(figures: RobotFigures, options: SceneOptions) -> list[FrameSensor]:
    known = [body.name for body in figures.kinematic_order()]
    for name in options.bodies:
        if name not in known:
            raise ConfigurationError(f"{figures.file}: {unknown_name('body', name, known)}")
    # Quantity by quantity, so that a reader slices each one out of sensordata without a gather.
    return [
        FrameSensor(name=f"{name}_{quantity}", type=kind, frame="body", target=name, cutoff=0.0)
        for quantity, kind in BODY_STATE.items()
        for name in options.bodies
    ]


def _require_one_each(sensors: list[FrameSensor | ContactSensor]) -> None:
    for name, count in Counter(sensor.name for sensor in sensors).items():
        if count > 1:
            raise ConfigurationError(f"the scene would have {count} sensors '{name}': leave it out of sensors")
