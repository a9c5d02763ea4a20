"""Model fields that differ from env to env, always drawn from the nominal value."""

import math
from typing import Any

import pytest
import torch

from domain.entity import EntitySelector
from domain.errors import CapabilityError, ConfigurationError
from domain.managers.event import EventTermCfg
from domain.mdp import randomization as rand
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import make_env, mask, step

ALL = EntitySelector()
TRUNK = EntitySelector(bodies=("trunk",))


def run(func: Any, *, num_envs: int = 2, resets: int = 0, mode: Any = "reset", **params: Any) -> FakeBackend:
    backend = FakeBackend(num_envs)
    env = make_env(backend=backend, events={"r": EventTermCfg(func=func, mode=mode, params=params)})
    for _ in range(resets):
        env.reset()
    return backend


def test_scaling_at_100_resets_does_not_compound() -> None:
    """FR-55."""
    backend = run(rand.RandomizePdGains, resets=100, kp=(1.1, 1.1), kd=(1.0, 1.0), actuators=ALL, operation="scale")

    torch.testing.assert_close(backend.effective_field("actuator_gainprm")[:, :, 0], torch.full((2, 3), 22.0))


def test_adding_at_100_resets_does_not_compound() -> None:
    """FR-55."""
    backend = run(rand.RandomizeBodyMass, resets=100, mass=(0.5, 0.5), bodies=TRUNK)

    assert backend.effective_field("body_mass")[0].tolist() == [0.0, 5.5, 1.0, 0.5, 0.25]


def test_gains_go_to_the_three_places_of_a_position_servo() -> None:
    backend = run(
        rand.RandomizePdGains, kp=(30.0, 30.0), kd=(2.0, 2.0), actuators=EntitySelector(actuators=("hip_motor",))
    )

    assert backend.effective_field("actuator_gainprm")[0, :, 0].tolist() == [20.0, 20.0, 30.0]
    assert backend.effective_field("actuator_biasprm")[0, :, 1].tolist() == [-20.0, -20.0, -30.0]
    assert backend.effective_field("actuator_biasprm")[0, :, 2].tolist() == [-1.0, -1.0, -2.0]


@pytest.mark.parametrize(("operation", "expected"), [("add", 7.0), ("scale", 10.0), ("abs", 2.0)])
def test_operations(operation: str, expected: float) -> None:
    """FR-48."""
    backend = run(rand.RandomizeBodyMass, mass=(2.0, 2.0), bodies=TRUNK, operation=operation)

    assert backend.effective_field("body_mass")[:, 1].tolist() == [expected, expected]


@pytest.mark.parametrize("operation", ["multiply", object(), None, 3])
def test_an_unknown_operation_is_refused(operation: object) -> None:
    """FR-48."""
    with pytest.raises(ConfigurationError, match="events.r.params.operation: unknown choice"):
        run(rand.RandomizeBodyMass, mass=(2.0, 2.0), bodies=TRUNK, operation=operation)


def test_a_shared_draw_gives_all_chosen_geoms_of_a_row_one_number() -> None:
    shared = run(rand.RandomizeGeomFriction, friction=(0.5, 1.5), geoms=ALL, shared=True)
    own = run(rand.RandomizeGeomFriction, friction=(0.5, 1.5), geoms=ALL)

    table = shared.effective_field("geom_friction")[..., 0]
    assert torch.equal(table[:, 1], table[:, 2])
    assert table[0, 1] != table[1, 1]
    assert table[:, 0].tolist() == [1.0, 1.0]  # the floor is not the robot's
    assert (own.effective_field("geom_friction")[:, 1, 0] != own.effective_field("geom_friction")[:, 2, 0]).all()


def test_only_sliding_friction_changes() -> None:
    table = run(rand.RandomizeGeomFriction, friction=(0.5, 0.5), geoms=ALL).effective_field("geom_friction")

    torch.testing.assert_close(table[0, 1], torch.tensor([0.5, 0.005, 0.0001]))


def test_armature_goes_to_the_dofs_of_the_joints() -> None:
    backend = run(rand.RandomizeJointArmature, armature=(2.0, 2.0), joints=EntitySelector(joints=("knee",)))

    torch.testing.assert_close(backend.effective_field("dof_armature")[0, 6:], torch.tensor([0.1, 0.4, 0.3]))


def test_a_centre_of_mass_is_shifted_alike_for_all_chosen_bodies() -> None:
    backend = run(
        rand.RandomizeBodyCom, offset={"x": (-1.0, 1.0), "z": (0.5, 0.5)}, bodies=EntitySelector(bodies=("t.*",))
    )
    table = backend.effective_field("body_ipos")

    assert torch.equal(table[:, 1], table[:, 2])
    assert table[0, 1, 0] != table[1, 1, 0]
    assert table[0, 1, 1:].tolist() == [0.0, 0.5]
    assert not table[:, 3:].any()


def test_masses_stay_above_zero() -> None:
    backend = run(rand.RandomizeBodyMass, mass=(-99.0, -99.0), bodies=TRUNK)

    torch.testing.assert_close(backend.effective_field("body_mass")[:, 1], torch.full((2,), 1e-6))


def test_a_log_uniform_draw_is_even_in_the_logarithm() -> None:
    backend = run(
        rand.RandomizeBodyMass,
        num_envs=2000,
        mass=(0.01, 100.0),
        bodies=TRUNK,
        operation="abs",
        distribution="log_uniform",
    )
    logs = backend.effective_field("body_mass")[:, 1].log10()

    torch.testing.assert_close(logs.mean(), torch.tensor(0.0), atol=0.1, rtol=0)
    torch.testing.assert_close(logs.std(), torch.tensor(4 / math.sqrt(12)), atol=0.05, rtol=0)


def test_a_start_up_draw_stays_over_resets() -> None:
    backend = FakeBackend(2)
    event = EventTermCfg(func=rand.RandomizeBodyMass, mode="startup", params={"mass": (0.0, 1.0), "bodies": ALL})
    env = make_env(backend=backend, events={"r": event}, started=False)
    before = backend.effective_field("body_mass").clone()
    env.reset()
    step(env, 2)
    env.reset()

    assert torch.equal(backend.effective_field("body_mass"), before)
    assert (before[:, 1] != 5.0).all()


def test_only_reset_rows_are_redrawn() -> None:
    backend = FakeBackend(2)
    event = EventTermCfg(func=rand.RandomizeBodyMass, mode="reset", params={"mass": (0.0, 1.0), "bodies": ALL})
    env = make_env(backend=backend, events={"r": event})
    before = backend.effective_field("body_mass").clone()
    env.reset(mask(0, 1))
    after = backend.effective_field("body_mass")

    assert torch.equal(after[0], before[0])
    assert (after[1, 1:] != before[1, 1:]).all()


@pytest.mark.parametrize(
    ("func", "params", "match"),
    [
        (rand.RandomizeBodyMass, {"mass": (2.0, 1.0), "bodies": ALL}, "low is above high"),
        (
            rand.RandomizeBodyMass,
            {"mass": (-1.0, 1.0), "bodies": ALL, "distribution": "log_uniform"},
            "log_uniform range lies above 0",
        ),
        (rand.RandomizePdGains, {"kp": (-1.0, 1.0), "kd": (0.0, 1.0), "actuators": ALL}, r"kp is -1.0, outside \[0.0"),
        (
            rand.RandomizePdGains,
            {"kp": (1.0, 1.0), "kd": (0.0, 1.0), "actuators": ALL, "distribution": "log_uniform"},
            "log_uniform range lies above 0",
        ),
        (
            rand.RandomizePdGains,
            {"kp": (1.0, 1.0), "kd": (0.0, 1.0), "actuators": EntitySelector(joints=("hip",))},
            "selects joints, but only its actuators count",
        ),
        (rand.RandomizeBodyMass, {"mass": (1.0, 1.0), "bodies": EntitySelector(bodies=())}, "no body is selected"),
    ],
)
def test_impossible_randomisation_is_refused(func: Any, params: dict[str, Any], match: str) -> None:
    """FR-44."""
    with pytest.raises(ConfigurationError, match=f"events.r.*{match}"):
        run(func, **params)


def test_a_mode_in_which_fields_cannot_change_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot run in mode interval: use startup or reset"):
        run(rand.RandomizeBodyMass, mode="interval", mass=(1.0, 1.0), bodies=ALL)


def test_a_backend_without_the_field_is_named() -> None:
    class Gravity(rand.RandomizeBodyMass):
        field = "gravity"

    with pytest.raises(CapabilityError, match="events.r: .*'gravity'"):
        run(Gravity, mass=(1.0, 1.0), bodies=ALL)
