"""Turns a robot's figures and scene options into a scene: MJCF text and its index."""

from application.robots.figures import FLOOR, ContactSensor, FrameSensor, RobotFigures
from application.robots.mjcf import write_mjcf
from application.robots.model_index import build_index
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions
from domain.errors import ConfigurationError, unknown_name


def build_scene(figures: RobotFigures, options: SceneOptions) -> SceneModel:
    """Build the scene of one robot; the entity is called ``robot``.

    Raises:
        ConfigurationError: A sensor that the robot lacks, or one that needs the absent floor.
    """
    sensors = _select_sensors(figures, options)
    index = build_index(figures, options, sensors)
    return SceneModel(mjcf=write_mjcf(figures, options, sensors, index), index=index, camera=figures.camera.name)


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
