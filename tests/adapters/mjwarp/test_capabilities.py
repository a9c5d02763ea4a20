"""Each declared sensor type is filled, with the values of the engine on the CPU."""

import dataclasses

import pytest
import torch

from adapters.mjwarp.capabilities import CAPABILITIES
from adapters.mujoco.backend import MujocoBackend
from adapters.mujoco.capabilities import CAPABILITIES as OF_MUJOCO
from application.robots.scene import SceneModel
from domain.physics import SensorSlot
from tests.adapters.mjwarp.worlds import make
from tests.adapters.mujoco.small_scenes import WALKER, WALKER_MJCF, rows, write_of

SENSORS: dict[str, tuple[str, int]] = {
    "accelerometer": ('site="imu"', 3),
    "actuatorfrc": ('actuator="left_motor"', 1),
    "actuatorpos": ('actuator="left_motor"', 1),
    "actuatorvel": ('actuator="left_motor"', 1),
    "contact": ('geom1="left_foot" geom2="floor" num="1" reduce="netforce" data="found force torque pos"', 10),
    "force": ('site="imu"', 3),
    "frameangacc": ('objtype="site" objname="imu"', 3),
    "frameangvel": ('objtype="site" objname="imu"', 3),
    "framelinacc": ('objtype="site" objname="imu"', 3),
    "framelinvel": ('objtype="site" objname="imu"', 3),
    "framepos": ('objtype="site" objname="imu"', 3),
    "framequat": ('objtype="site" objname="imu"', 4),
    "framexaxis": ('objtype="site" objname="imu"', 3),
    "frameyaxis": ('objtype="site" objname="imu"', 3),
    "framezaxis": ('objtype="site" objname="imu"', 3),
    "gyro": ('site="imu"', 3),
    "jointactuatorfrc": ('joint="left_joint"', 1),
    "jointpos": ('joint="left_joint"', 1),
    "jointvel": ('joint="left_joint"', 1),
    "magnetometer": ('site="imu"', 3),
    "subtreeangmom": ('body="base"', 3),
    "subtreecom": ('body="base"', 3),
    "subtreelinvel": ('body="base"', 3),
    "torque": ('site="imu"', 3),
    "touch": ('site="sole"', 1),
    "velocimeter": ('site="imu"', 3),
}
"""By MJCF element: attributes and number of values."""
SCALE = {
    "accelerometer": 100.0,
    "actuatorfrc": 10.0,
    "contact": 100.0,
    "force": 1000.0,
    "frameangacc": 1000.0,
    "framelinacc": 100.0,
    "jointactuatorfrc": 10.0,
    "torque": 100.0,
    "touch": 100.0,
}
"""What a value of 1 is small against, of sensors that feel contacts; 1 for the others."""


def scene_of_all() -> SceneModel:
    lines = "".join(f'<{kind} name="{kind}" {attributes}/>' for kind, (attributes, _) in SENSORS.items())
    head, _, rest = WALKER_MJCF.partition("<sensor>")
    _, _, tail = rest.partition("</sensor>")
    foot = '<geom name="left_foot"'
    sole = '<site name="sole" type="sphere" pos="0 0 -0.25" size="0.2"/>'
    slots, adr = {}, 0
    for kind, (_, dim) in SENSORS.items():
        slots[kind] = SensorSlot(name=kind, type=kind, adr=adr, dim=dim)
        adr += dim
    entity = dataclasses.replace(WALKER.index.entities["robot"], sites=("imu", "sole"))
    index = dataclasses.replace(
        WALKER.index, sensors=slots, nsensordata=adr, sites=("imu", "sole"), entities={"robot": entity}
    )
    mjcf = head.replace(foot, f"{sole}{foot}") + f"<sensor>{lines}</sensor>" + tail
    # The engines turn a steep capsule's contact frame differently about its normal, which a friction pyramid feels.
    mjcf = mjcf.replace('<option timestep="0.005"', '<option timestep="0.005" cone="elliptic"')
    return dataclasses.replace(WALKER, mjcf=mjcf, index=index)


def test_every_declared_sensor_type_is_tried_below() -> None:
    assert SENSORS.keys() == CAPABILITIES.sensor_types == OF_MUJOCO.sensor_types


@pytest.mark.slow
@pytest.mark.parametrize("refreshed", [False, True])
def test_every_sensor_reads_as_on_the_cpu(refreshed: bool) -> None:
    scene = scene_of_all()
    backend, expected = make(scene, 2), MujocoBackend(scene, 2)
    for each in (backend, expected):
        each.control[:] = torch.tensor([[0.3, 0.1]])
        each.step(12)
        if refreshed:
            write = write_of(each, written=rows(2, 0, 1))
            write.qpos[:] = torch.tensor([0.1, 0.2, 0.27, 0.99, -0.02, 0.05, 0.1, 0.12, 0.1])
            write.qpos[:, 3:7] /= write.qpos[:, 3:7].norm(dim=1, keepdim=True)
            write.qvel[:] = torch.tensor([0.1, -0.2, -0.1, 0.1, 0.2, -0.1, 0.4, 0.1])
            each.commit(write)

    for kind, slot in scene.index.sensors.items():
        seen, wanted = (each.state.sensordata[:, slot.adr : slot.adr + slot.dim] for each in (backend, expected))
        assert wanted.any(), f"{kind} reads only zeros: it would agree with a sensor that is never filled"
        difference = (seen - wanted).abs().max().item()
        assert difference < 1e-4 * wanted.abs().max().item() + 1e-4 * SCALE.get(kind, 1.0), (kind, difference)
