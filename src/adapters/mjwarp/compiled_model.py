"""From a scene's text to a compiled model that fits the scene's index, and to Warp's copy of it."""

from collections.abc import Iterator
from typing import Any

from adapters.mjwarp.engine import mujoco
from adapters.mjwarp.engine import mujoco_warp as mjw
from application.robots.scene import SceneModel
from domain.errors import CapabilityError, ConfigurationError
from domain.physics import ModelIndex

_SLEEP = int(mujoco.mjtEnableBit.mjENBL_SLEEP)


def compile_physics(scene: SceneModel) -> Any:
    """Compile the scene without its visual elements and check its sizes and sensors against ``scene.index``.

    Names and addresses of bodies, joints and actuators are checked where the same text is compiled for the CPU.

    Raises:
        ConfigurationError: The text does not compile, or the first difference from the index.
    """
    try:
        spec = mujoco.MjSpec.from_string(scene.mjcf)
        spec.discard_visual()
        model = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigurationError(f"the scene's MJCF does not compile: {error}") from error
    for what, stated, compiled in _compared(model, scene.index):
        if stated != compiled:
            raise ConfigurationError(f"{what} is {stated!r} in the index but {compiled!r} in the compiled model")
    return model


def put_on_device(model: Any) -> Any:
    """Return Warp's copy of a compiled model on the current Warp device; it prints nothing when a buffer overflows.

    Raises:
        CapabilityError: The model uses a feature that MJWarp lacks; names scene and feature.
        ConfigurationError: The model is beyond a limit of MJWarp.
    """
    name = model.names[: model.names.index(b"\0")].decode() or "unnamed"
    try:
        device_model = mjw.put_model(model)
    except NotImplementedError as error:
        raise CapabilityError(
            f"simulator 'mjwarp' cannot simulate scene '{name}': {str(error).rstrip('.')}: use another --sim"
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"simulator 'mjwarp' refuses scene '{name}': {error}") from error
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_DISCRETE or model.opt.enableflags & _SLEEP:
        raise CapabilityError(
            f"simulator 'mjwarp' cannot bring up to date the sensors of scene '{name}', which uses the discrete "
            "integrator or lets bodies sleep: use another --sim"
        )
    device_model.opt.warn_overflow = 0
    # Newton's start is the step before: what accelerations were without constraints, a factorization, is not asked for.
    device_model.opt.run_qacc_smooth = False
    return device_model


def _compared(model: Any, index: ModelIndex) -> Iterator[tuple[str, object, object]]:
    """Yield (what, as the index states it, as compiled)."""
    yield "nq", index.nq, int(model.nq)
    yield "nv", index.nv, int(model.nv)
    yield "nu", index.nu, int(model.nu)
    yield "nsensordata", index.nsensordata, int(model.nsensordata)
    yield "timestep", index.timestep, float(model.opt.timestep)
    sensors = {model.sensor(i).name: i for i in range(model.nsensor)}
    yield "sensors", sorted(index.sensors), sorted(sensors)
    for name, slot in index.sensors.items():
        i = sensors[name]
        compiled = (int(model.sensor_adr[i]), int(model.sensor_dim[i]))
        yield f"sensors['{name}'] (adr, dim)", (slot.adr, slot.dim), compiled
