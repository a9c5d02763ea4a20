"""Model fields that differ from world to world, against the engine on the CPU."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from adapters.mjwarp.capabilities import CAPABILITIES
from adapters.mujoco.backend import MujocoBackend
from adapters.mujoco.capabilities import CAPABILITIES as OF_MUJOCO
from domain.errors import CapabilityError, ConfigurationError
from domain.physics import PhysicsBackend
from tests.adapters.mjwarp.worlds import hold, make, put_default
from tests.adapters.mujoco.small_scenes import SLIDER, WALKER, WALKER_MJCF, drive, rows, write_of
from tests.adapters.mujoco.test_model_fields import CHANGES

pytestmark = pytest.mark.slow


def change(backend: PhysicsBackend, name: str, row: int) -> None:
    where, value = CHANGES[name]
    backend.model_field(name)[row][where] = value
    backend.commit(write_of(backend, fields={name: rows(backend.num_envs, row)}))


def derived(backend: Any, name: str) -> Tensor:
    values: Tensor = backend._fields._values[name]
    return values


def test_every_declared_field_is_tried_below() -> None:
    assert CHANGES.keys() == CAPABILITIES.model_fields == OF_MUJOCO.model_fields


@pytest.mark.parametrize("name", sorted(CAPABILITIES.model_fields))
def test_a_changed_field_changes_its_world_as_the_engine_on_the_cpu_does_and_no_other(name: str) -> None:
    backend, plain, expected = make(), make(), MujocoBackend(WALKER, 3)
    for each in (backend, plain, expected):
        each.model_field(name)
    for each in (backend, expected):
        change(each, name, row=1)

    seen, unchanged, wanted = hold(backend, 20), hold(plain, 20), hold(expected, 20)

    assert torch.equal(seen[:, [0, 2]], unchanged[:, [0, 2]])
    effect = (wanted[:, 1] - wanted[:, 0]).abs().max()
    assert effect > 1e-2
    torch.testing.assert_close(seen[..., :9], wanted[..., :9], atol=1e-4, rtol=0)
    torch.testing.assert_close(seen[..., 9:], wanted[..., 9:], atol=1e-2, rtol=0)  # the feet touch down in step 5


@pytest.mark.parametrize("name", sorted(CAPABILITIES.model_fields))
def test_nominal_values_leave_every_bit_and_so_does_the_way_back_to_them(name: str) -> None:
    backend, plain = make(), make()
    nominal = backend.model_field(name).clone()
    change(backend, name, row=1)

    backend.model_field(name).copy_(nominal)
    backend.commit(write_of(backend, fields={name: rows(3, 0, 1)}))

    assert torch.equal(hold(backend, 20), hold(plain, 20))


def test_unlike_masses_fall_and_stand_as_on_the_cpu() -> None:
    backend, expected = make(num_envs=4), MujocoBackend(WALKER, 4)
    for each in (backend, expected):
        each.model_field("body_mass")[:, 1] = torch.tensor([4.0, 6.921, 10.0, 20.0])
        each.commit(write_of(each, fields={"body_mass": rows(4, 0, 1, 2, 3)}))

    seen, wanted = hold(backend, 60, control=0.1), hold(expected, 60, control=0.1)

    torch.testing.assert_close(seen[..., :9], wanted[..., :9], atol=1e-4, rtol=0)
    torch.testing.assert_close(backend.state.sensordata, expected.state.sensordata, atol=0.05, rtol=1e-3)
    weight_on_foot = backend.state.sensordata[:, 7:].norm(dim=1)
    assert weight_on_foot[3] > weight_on_foot[0] + 40.0


def test_derived_constants_are_those_of_a_model_compiled_so() -> None:
    heavy = dataclasses.replace(WALKER, mjcf=WALKER_MJCF.replace('mass="6.921"', 'mass="9.5"'))
    light = dataclasses.replace(WALKER, mjcf=WALKER_MJCF.replace('mass="6.921"', 'mass="3.5"'))
    models = [MujocoBackend(scene, 1)._batch.model for scene in (heavy, WALKER, light)]
    backend = make()

    backend.model_field("body_mass")[:, 1] = torch.tensor([9.5, 6.921, 3.5])
    backend.commit(write_of(backend, fields={"body_mass": rows(3, 0, 1, 2)}))

    for name in ("body_subtreemass", "body_invweight0", "dof_invweight0"):
        compiled = torch.stack([torch.tensor(getattr(model, name).tolist()) for model in models])
        torch.testing.assert_close(derived(backend, name), compiled, rtol=2e-4, atol=1e-5, msg=name)
    assert len({row.sum().item() for row in derived(backend, "dof_invweight0")}) == 3


def test_rows_outside_the_mask_keep_their_values_until_it_names_them() -> None:
    backend, plain = make(), make()
    backend.model_field("body_mass")[:, 1] = 9.0

    backend.commit(write_of(backend, fields={"body_mass": rows(3, 1)}))

    seen, expected = hold(backend, 20), hold(plain, 20)
    assert torch.equal(seen[:, [0, 2]], expected[:, [0, 2]])
    assert not torch.equal(seen[:, 1], expected[:, 1])


def test_a_reset_keeps_the_row_s_model_fields() -> None:
    backend, reset = make(), make()
    for each in (backend, reset):
        change(each, "body_mass", row=1)

    hold(reset, 10)
    for each in (reset, backend):
        put_default(each, rows(3, 0, 1, 2))

    assert torch.equal(hold(reset, 20), hold(backend, 20))


def test_a_table_row_that_is_not_finite_is_refused_and_its_row_diverges() -> None:
    backend, plain = make(), make()
    backend.model_field("body_mass")[2, 1] = float("nan")

    backend.commit(write_of(backend, fields={"body_mass": rows(3, 1, 2)}))
    backend.step(1)
    plain.step(1)

    assert backend.state.diverged.tolist() == [False, False, True]
    assert torch.equal(backend.state.qpos, plain.state.qpos)


def test_a_field_s_table_keeps_its_storage_and_is_given_again() -> None:
    backend = make()

    table = backend.model_field("geom_friction")

    assert table.shape == (3, 4, 3)
    assert table.dtype == torch.float32
    assert backend.model_field("geom_friction") is table


def test_the_engine_s_arrays_stay_where_a_recorded_step_reads_them() -> None:
    """FR-54."""
    backend = make()
    backend.model_field("body_mass")
    model = backend._fields._model
    before = (model.body_mass.ptr, model.dof_invweight0.ptr, model.body_subtreemass.ptr)

    for value in (8.0, 9.0):
        backend.model_field("body_mass")[1, 1] = value
        backend.commit(write_of(backend, fields={"body_mass": rows(3, 1)}))
        drive(backend, 2)

    assert (model.body_mass.ptr, model.dof_invweight0.ptr, model.body_subtreemass.ptr) == before


def test_a_field_bound_after_the_first_step_is_refused() -> None:
    backend = make(SLIDER)
    backend.model_field("opt.gravity")
    backend.step(1)

    assert backend.model_field("opt.gravity").shape == (3, 3)
    with pytest.raises(ConfigurationError, match="'body_mass' is bound after the first step"):
        backend.model_field("body_mass")


def test_an_undeclared_field_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(CapabilityError, match="did you mean 'body_mass'"):
        make(SLIDER).model_field("body_mas")


def test_a_field_that_was_never_bound_cannot_be_committed() -> None:
    backend = make(SLIDER)

    with pytest.raises(ConfigurationError, match="bound model field 'body_mass'"):
        backend.commit(write_of(backend, fields={"body_mass": rows(3, 0)}))
