"""What surrounds a robot in its scene: time step, solver, floor, and which of its sensors are read."""

import math
from dataclasses import dataclass
from typing import Literal

from domain.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """Settings of one compiled scene; all of them are written out, so no engine default matters."""

    timestep: float
    """Physics step, s."""
    sensors: tuple[str, ...] = ()
    """Sensors to emit, in the order of ``sensordata``."""
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

    def __post_init__(self) -> None:
        if not 0.0 < self.timestep < math.inf:
            raise ConfigurationError(f"timestep is {self.timestep}: give a positive number of seconds, e.g. 0.01")
        if self.iterations < 1 or self.ls_iterations < 1:
            raise ConfigurationError(
                f"iterations is {self.iterations} and ls_iterations {self.ls_iterations}: both need to be 1 or more"
            )
        repeated = sorted({name for name in self.sensors if self.sensors.count(name) > 1})
        if repeated:
            raise ConfigurationError(f"sensors names {', '.join(repeated)} more than once: name each sensor once")
