"""From a scene's text to a compiled model whose names and addresses are the ones that the scene promised."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from adapters.mujoco.engine import mujoco
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError
from domain.physics import EntityIndex, ModelIndex

_FREE = int(mujoco.mjtJoint.mjJNT_FREE)
_ELEMENT_OF_SHORTENED = {"jointactfrc": "jointactuatorfrc", "tendonactfrc": "tendonactuatorfrc"}


def compile_physics(scene: SceneModel) -> Any:
    """Compile the scene without its visual elements and check it against ``scene.index``.

    Raises:
        ConfigurationError: The text does not compile, or the first difference from the index.
    """
    try:
        spec = mujoco.MjSpec.from_string(scene.mjcf)
        spec.discard_visual()
        model = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigurationError(f"the scene's MJCF does not compile: {error}") from error
    check_index(model, scene.index)
    return model


def check_index(model: Any, index: ModelIndex) -> None:
    """Raise ConfigurationError naming the first thing in which the compiled model differs from the index."""
    for what, stated, compiled in _compared(model, index):
        if isinstance(stated, tuple) and isinstance(compiled, tuple):
            _check_tuple(what, stated, compiled)
        elif stated != compiled:
            raise _difference(what, stated, compiled)
    for entity in index.entities.values():
        _check_entity(model, entity)


def sensor_element(kind: int) -> str:
    """Return the MJCF element of a compiled sensor's type, which the engine's enum abbreviates at times."""
    name = str(mujoco.mjtSensor(kind).name).removeprefix("mjSENS_").lower()
    return _ELEMENT_OF_SHORTENED.get(name, name)


def _compared(model: Any, index: ModelIndex) -> Iterator[tuple[str, object, object]]:
    """Yield (what, as the index states it, as compiled)."""
    yield "nq", index.nq, int(model.nq)
    yield "nv", index.nv, int(model.nv)
    yield "nu", index.nu, int(model.nu)
    yield "nsensordata", index.nsensordata, int(model.nsensordata)
    yield "timestep", index.timestep, float(model.opt.timestep)
    yield "bodies", index.bodies, _names(model.body, model.nbody)
    yield "joints", index.joints, _names(model.joint, model.njnt)
    yield "geoms", index.geoms, _names(model.geom, model.ngeom)
    yield "sites", index.sites, _names(model.site, model.nsite)
    yield "actuators", index.actuators, _names(model.actuator, model.nu)
    keyframe = model.key_qpos[0] if model.nkey else model.qpos0
    yield "default_qpos", index.default_qpos, tuple(float(value) for value in keyframe)
    sensors = {model.sensor(i).name: i for i in range(model.nsensor)}
    yield "sensors", tuple(sorted(index.sensors)), tuple(sorted(sensors))
    for name, slot in index.sensors.items():
        i = sensors[name]
        compiled = (sensor_element(model.sensor_type[i]), int(model.sensor_adr[i]), int(model.sensor_dim[i]))
        yield f"sensors['{name}'] (type, adr, dim)", (slot.type, slot.adr, slot.dim), compiled


def _check_entity(model: Any, entity: EntityIndex) -> None:
    """Check one entity's addresses, ranges and default pose against the compiled model."""
    where = f"entities['{entity.name}']"
    for place, name in enumerate(entity.joints):
        joint = _named(model.joint, name, f"{where}.joints")
        _check_tuple(
            f"{where}.joints: (qpos, qvel) addresses of '{name}'",
            (entity.qpos_adr + place, entity.dof_adr + place),
            (int(joint.qposadr[0]), int(joint.dofadr[0])),
        )
        limits = tuple(float(end) for end in joint.range) if joint.limited[0] else (-math.inf, math.inf)
        _check_tuple(f"{where}.joint_range of '{name}'", entity.joint_range[place], limits)
    root = _named(model.body, entity.root_body, f"{where}.root_body")
    first = int(root.jntadr[0])
    free = first >= 0 and int(model.jnt_type[first]) == _FREE
    compiled = (int(model.jnt_qposadr[first]), int(model.jnt_dofadr[first])) if free else (None, None)
    _check_tuple(f"{where}: root addresses", (entity.root_qpos_adr, entity.root_dof_adr), compiled)
    for kind, names in (("body", entity.bodies), ("geom", entity.geoms), ("site", entity.sites)):
        for name in names:
            _named(getattr(model, kind), name, f"{where}: {kind}")
    for name, driven in zip(entity.actuators, entity.actuator_joint, strict=True):
        actuator = _named(model.actuator, name, f"{where}.actuators")
        joint_name = model.joint(int(actuator.trnid[0])).name
        if joint_name != driven:
            raise _difference(f"{where}.actuator_joint of '{name}'", driven, joint_name)


def _named(view: Any, name: str, where: str) -> Any:
    try:
        return view(name)
    except KeyError as error:
        raise ConfigurationError(f"the index's {where} has '{name}', which the compiled model lacks") from error


def _names(view: Any, count: int) -> tuple[str, ...]:
    return tuple(view(i).name for i in range(count))


def _check_tuple(what: str, stated: Sequence[object], compiled: Sequence[object]) -> None:
    if len(stated) != len(compiled):
        extra = sorted({str(v) for v in stated} ^ {str(v) for v in compiled})
        raise ConfigurationError(
            f"the index has {len(stated)} {what}, the compiled model {len(compiled)} (only on one side: {extra})"
        )
    for place, (left, right) in enumerate(zip(stated, compiled, strict=True)):
        if not _same(left, right):
            raise _difference(f"{what}[{place}]", left, right)


def _same(stated: object, compiled: object) -> bool:
    """Compare; numbers may differ by what a decimal text loses."""
    if isinstance(stated, float) and isinstance(compiled, float):
        return math.isclose(stated, compiled, rel_tol=1e-9, abs_tol=1e-9)
    return stated == compiled


def _difference(what: str, stated: object, compiled: object) -> ConfigurationError:
    return ConfigurationError(f"{what} is {stated!r} in the index but {compiled!r} in the compiled model")
