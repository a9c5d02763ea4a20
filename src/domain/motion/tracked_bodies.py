"""The robot's tracked bodies, as the simulation's sensors see them."""

from collections.abc import Sequence

from torch import Tensor

from domain.errors import ConfigurationError
from domain.view import EnvView

SENSOR_SIZES = {"pos": 3, "quat": 4, "linvel": 3, "angvel": 3}
"""A tracked body's sensors, called ``{body}_{kind}``, and how many numbers each has."""


class TrackedBodies:
    """Views of the states of bodies, world frame, at their origins.

    ``pos`` (num_envs, bodies, 3) in m, ``quat`` (num_envs, bodies, 4) w first, ``lin_vel`` (num_envs, bodies, 3) in
    m/s and ``ang_vel`` (num_envs, bodies, 3) in rad/s. As all sensors they are one physics substep old after a step.

    Raises:
        ConfigurationError: The model lacks a sensor, or the bodies' sensors of one kind are not adjacent in this order.
    """

    def __init__(self, env: EnvView, bodies: Sequence[str]) -> None:
        self.pos, self.quat, self.lin_vel, self.ang_vel = (_block(env, bodies, kind) for kind in SENSOR_SIZES)


def _block(env: EnvView, bodies: Sequence[str], kind: str) -> Tensor:
    size = SENSOR_SIZES[kind]
    sensors = env.index.sensors
    scene = f"build the scene with {', '.join(bodies)} as its tracked bodies, in this order"
    for name in (f"{body}_{kind}" for body in bodies):
        if name not in sensors:
            raise ConfigurationError(f"the model has no sensor '{name}': {scene}")
    start = sensors[f"{bodies[0]}_{kind}"].adr
    for i, body in enumerate(bodies):
        slot, adr = sensors[f"{body}_{kind}"], start + i * size
        if (slot.adr, slot.dim) != (adr, size):
            raise ConfigurationError(
                f"sensor '{slot.name}' has {slot.dim} numbers at {slot.adr}, expected {size} at {adr}: {scene}"
            )
    return env.state.sensordata[:, start : start + size * len(bodies)].view(-1, len(bodies), size)
