"""The scene's text against its index: the first difference is named."""

import dataclasses
from typing import Any

import pytest

from adapters.mujoco.capabilities import CAPABILITIES
from adapters.mujoco.compiled_model import compile_physics, sensor_element
from adapters.mujoco.engine import mujoco
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError
from domain.physics import SensorSlot
from tests.adapters.mujoco.small_scenes import WALKER, WALKER_MJCF

ROBOT = WALKER.index.entities["robot"]


def with_index(**changes: Any) -> SceneModel:
    return dataclasses.replace(WALKER, index=dataclasses.replace(WALKER.index, **changes))


def test_visual_elements_are_gone_and_the_rest_agrees_with_the_index() -> None:
    model = compile_physics(WALKER)

    assert model.ngeom == 4  # of 5 in the text
    assert (model.nq, model.nv, model.nu) == (9, 8, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nq": 10}, "nq is 10 in the index but 9"),
        ({"timestep": 0.004}, "timestep is 0.004 in the index but 0.005"),
        ({"bodies": ("world", "base", "right", "left")}, r"bodies\[2\] is 'right' in the index but 'left'"),
        ({"geoms": (*WALKER.index.geoms, "decoration")}, r"5 geoms, the compiled model 4 .*decoration"),
        ({"actuators": ("left_motor", "right_motor")}, r"actuators\[0\] is 'left_motor'"),
        ({"default_qpos": (0.0,) * 9}, r"default_qpos\[2\] is 0.0 in the index but 0.29"),
        ({"sensors": {}}, "0 sensors, the compiled model 3"),
        (
            {
                "sensors": dict(WALKER.index.sensors)
                | {"gyro": SensorSlot(name="gyro", type="velocimeter", adr=0, dim=3)}
            },
            r"sensors\['gyro'\].*'velocimeter' in the index but 'gyro'",
        ),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compile_physics(with_index(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dof_adr": 5}, r"addresses of 'left_joint'\[1\] is 5 in the index but 6"),
        ({"root_qpos_adr": None}, r"root addresses\[0\] is None in the index but 0"),
        ({"joint_range": ((-1.0, 1.0), (-1.0, 2.0))}, r"joint_range of 'right_joint'\[1\] is 2.0"),
        ({"actuator_joint": ("left_joint", "right_joint")}, "actuator_joint of 'right_motor' is 'left_joint'"),
        ({"sites": ("imv",)}, "site has 'imv', which the compiled model lacks"),
    ],
)
def test_the_first_difference_of_an_entity_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compile_physics(with_index(entities={"robot": dataclasses.replace(ROBOT, **changes)}))


def test_text_that_does_not_compile_is_an_error_of_ours() -> None:
    broken = dataclasses.replace(WALKER, mjcf=WALKER_MJCF.replace('joint="left_joint"', 'joint="lost_joint"'))

    with pytest.raises(ConfigurationError, match="does not compile.*lost_joint"):
        compile_physics(broken)


def sensor_attributes(element: str) -> str:
    if element.startswith("frame"):
        return 'objtype="site" objname="imu"'
    if element.startswith("subtree"):
        return 'body="base"'
    if element.startswith("actuator"):
        return 'actuator="left_motor"'
    if element.startswith("joint"):
        return 'joint="left_joint"'
    if element == "contact":
        return 'geom1="left_foot" geom2="floor"'
    return 'site="imu"'


@pytest.mark.parametrize("element", sorted(CAPABILITIES.sensor_types))
def test_a_declared_sensor_type_is_an_mjcf_element_and_recognised_as_such(element: str) -> None:
    text = WALKER_MJCF.replace("<sensor>", f'<sensor><{element} name="tried" {sensor_attributes(element)}/>')

    model = mujoco.MjModel.from_xml_string(text)

    assert sensor_element(model.sensor("tried").type[0]) == element
