"""What surrounds a robot in its scene: time step, solver, floor, and which of its sensors are read."""

import math
from dataclasses import dataclass
from typing import Literal

from domain.errors import ConfigurationError

_SINGULAR = {"sensors": "sensor", "bodies": "body"}


@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """Settings of one compiled scene; all of them are written out, so no engine default matters."""

    timestep: float
    """Physics step, s."""
    sensors: tuple[str, ...] = ()
    """Sensors to emit, in the order of ``sensordata``."""
    bodies: tuple[str, ...] = ()
    """Bodies whose state follows the sensors, as sensors of the body frame in the world frame.

    First ``<body>_pos`` of all of them, then ``<body>_quat``, ``<body>_linvel``, ``<body>_angvel``: each quantity is
    one contiguous block.
    """
    floor: bool = True
    """An infinite horizontal plane."""
    floor_height: float = 0.0
    """World z of the floor, m."""
    contacts: bool = True
    integrator: Literal["Euler", "implicitfast", "implicit", "RK4"] = "Euler"
    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    impratio: float = 1.0
    """Frictional to normal constraint impedance."""
    iterations: int = 100
    ls_iterations: int = 50
    mesh_dir: str | None = None
    """Folder with the vendor's STL meshes, which renderers then draw; None for simple shapes."""

    def __post_init__(self) -> None:
        if not 0.0 < self.timestep < math.inf:
            raise ConfigurationError(f"timestep is {self.timestep}: give a positive number of seconds, e.g. 0.01")
        if self.iterations < 1 or self.ls_iterations < 1:
            raise ConfigurationError(
                f"iterations is {self.iterations} and ls_iterations {self.ls_iterations}: both need to be 1 or more"
            )
        for kind, names in (("sensors", self.sensors), ("bodies", self.bodies)):
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise ConfigurationError(
                    f"{kind} names {', '.join(repeated)} more than once: name each {_SINGULAR[kind]} once"
                )
