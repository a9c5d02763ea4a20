"""What is refused before a world exists."""

import dataclasses
from typing import Any

import pytest

from application.robots.scene import SceneModel
from domain.errors import CapabilityError, ConfigurationError
from domain.physics import SensorSlot
from tests.adapters.mjwarp.worlds import make
from tests.adapters.mujoco.small_scenes import WALKER, WALKER_MJCF


def walker(**changes: Any) -> SceneModel:
    return dataclasses.replace(WALKER, index=dataclasses.replace(WALKER.index, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nq": 8}, "nq is 8 in the index but 9 in the compiled model"),
        ({"nv": 9}, "nv is 9"),
        ({"nu": 1}, "nu is 1"),
        ({"nsensordata": 11}, "nsensordata is 11"),
        ({"timestep": 0.01}, r"timestep is 0.01 in the index but 0.005"),
        ({"sensors": {}}, r"sensors is \[\] in the index"),
    ],
)
def test_a_size_that_differs_from_the_index_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make(walker(**changes))


def test_a_sensor_at_another_address_is_refused_by_name() -> None:
    moved = {**WALKER.index.sensors, "gyro": SensorSlot(name="gyro", type="gyro", adr=3, dim=3)}

    with pytest.raises(
        ConfigurationError, match=r"sensors\['gyro'\] \(adr, dim\) is \(3, 3\) in the index but \(0, 3\)"
    ):
        make(walker(sensors=moved))


def test_a_text_that_does_not_compile_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="MJCF does not compile"):
        make(dataclasses.replace(WALKER, mjcf="<mujoco><worldbody><geom/></worldbody></mujoco>"))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ('solver="PGS"', "cannot simulate scene 'walker': mjSOL_PGS is unsupported: use another --sim"),
        ('integrator="discrete"', "scene 'walker', which uses the discrete integrator"),
    ],
)
def test_a_feature_that_the_engine_lacks_is_refused_with_the_scene_s_name(option: str, message: str) -> None:
    mjcf = WALKER_MJCF.replace('<option timestep="0.005"', f'<option timestep="0.005" {option}')

    with pytest.raises(CapabilityError, match=message):
        make(dataclasses.replace(WALKER, mjcf=mjcf))
