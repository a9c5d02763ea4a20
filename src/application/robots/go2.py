"""The Unitree Go2 on a floor."""

from application.robots.builder import build_scene
from application.robots.reader import load_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions

LEGS = ("FL", "FR", "RL", "RR")
"""In joint order."""
DEFAULT_SENSORS: tuple[str, ...] = (
    "gyro",
    "local_linvel",
    "upvector",
    *(f"{leg}_pos" for leg in LEGS),
    *(f"{leg}_foot_contact" for leg in LEGS),
)
"""What walking on flat ground reads: 25 values."""


def build(*, timestep: float, sensors: tuple[str, ...] = DEFAULT_SENSORS) -> SceneModel:
    """Build the scene with ``timestep`` seconds a physics step and ``sensors`` in that order.

    Joints run FL, FR, RL, RR, actuators FR, FL, RR, RL. The servos have kp 35 N m/rad and no damping of their
    own; the joints have 0.5 N m s/rad.

    Raises:
        ConfigurationError: A sensor that the robot lacks, or a time step that is not positive.
    """
    options = SceneOptions(timestep=timestep, sensors=sensors, cone="elliptic", impratio=100.0, integrator="Euler")
    return build_scene(load_figures("go2.toml"), options)
