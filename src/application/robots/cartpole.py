"""A cart on a rail that balances, or swings up, a pole; no contacts."""

from application.robots.builder import build_scene
from application.robots.reader import load_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions

FLOOR_HEIGHT = -0.05
"""m; the hanging pole just clears it."""


def build(*, timestep: float = 0.01) -> SceneModel:
    """Build the scene with ``timestep`` seconds a physics step.

    Joints are ``slider`` (m) and ``hinge_1`` (rad, 0 upright, pi hanging); the only actuator pushes the cart
    with 10 N at control 1.

    Raises:
        ConfigurationError: The time step is not positive.
    """
    options = SceneOptions(timestep=timestep, contacts=False, floor_height=FLOOR_HEIGHT)
    return build_scene(load_figures("cartpole.toml"), options)
