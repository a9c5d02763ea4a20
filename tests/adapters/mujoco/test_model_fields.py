"""Model fields that differ from env to env, through the backend's public calls."""

import dataclasses

import numpy as np
import pytest
import torch

from adapters.mujoco.backend import MujocoBackend
from adapters.mujoco.capabilities import CAPABILITIES
from adapters.mujoco.model_fields import NEEDS_CONSTANTS
from domain.errors import CapabilityError, ConfigurationError, SimulationError
from tests.adapters.mujoco.small_scenes import SLIDER, WALKER, WALKER_MJCF, drive, rows, write_of

CHANGES: dict[str, tuple[tuple[int, ...] | slice, float]] = {
    "actuator_biasprm": ((0, 2), -3.0),  # kv of the right motor
    "actuator_forcerange": ((0, 1), 0.5),
    "actuator_gainprm": ((0, 0), 90.0),
    "body_inertia": ((1, 1), 0.2),
    "body_ipos": ((1, 0), 0.08),
    "body_mass": ((1,), 9.0),
    "dof_armature": ((6,), 0.1),
    "dof_damping": ((6,), 2.0),
    "dof_frictionloss": ((6,), 1.0),
    "geom_friction": (slice(None), 0.05),
    "opt.gravity": ((2,), -3.0),
}
"""Field: (element of one env's table, new value)."""


def change(backend: MujocoBackend, name: str, row: int) -> None:
    table = backend.model_field(name)
    where, value = CHANGES[name]
    table[row][where] = value
    backend.commit(write_of(backend, fields={name: rows(backend.num_envs, row)}))


def test_every_declared_field_is_tried_below() -> None:
    assert CHANGES.keys() == CAPABILITIES.model_fields


@pytest.mark.parametrize("name", sorted(CAPABILITIES.model_fields))
def test_a_changed_field_changes_the_physics_of_its_row_only(name: str) -> None:
    backend, plain = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    backend.model_field(name)

    change(backend, name, row=1)

    seen, expected = torch.stack(drive(backend, 40)), torch.stack(drive(plain, 40))
    assert torch.equal(seen[:, [0, 2]], expected[:, [0, 2]])
    assert (seen[-1, 1] - expected[-1, 1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", sorted(CAPABILITIES.model_fields))
def test_committing_nominal_values_leaves_every_bit(name: str) -> None:
    backend, plain = MujocoBackend(WALKER, 2), MujocoBackend(WALKER, 2)
    backend.model_field(name)

    backend.commit(write_of(backend, fields={name: rows(2, 0, 1)}))

    assert torch.equal(torch.stack(drive(backend, 40)), torch.stack(drive(plain, 40)))


@pytest.mark.parametrize("name", sorted(CAPABILITIES.model_fields))
def test_back_to_nominal_is_nominal_to_the_bit(name: str) -> None:
    backend, plain = MujocoBackend(WALKER, 2), MujocoBackend(WALKER, 2)
    nominal = backend.model_field(name).clone()
    change(backend, name, row=1)

    backend.model_field(name).copy_(nominal)
    backend.commit(write_of(backend, fields={name: rows(2, 1)}))

    assert torch.equal(torch.stack(drive(backend, 40)), torch.stack(drive(plain, 40)))


def test_the_declared_list_of_fields_that_need_constants_is_complete() -> None:
    for name in CAPABILITIES.model_fields - NEEDS_CONSTANTS:
        backend = MujocoBackend(WALKER, 2)
        change(backend, name, row=1)
        backend._batch.set_const()
        derived = [field for field in backend._fields._expanded() if field != name]
        assert derived == [], name


def test_a_field_set_a_hundred_times_to_the_same_value_stays_there() -> None:
    backend, once = MujocoBackend(WALKER, 2), MujocoBackend(WALKER, 2)
    nominal = backend.model_field("body_mass").clone()
    once.model_field("body_mass")

    for each, times in ((backend, 100), (once, 1)):
        for _ in range(times):
            each.model_field("body_mass")[1] = nominal[1] * 1.1
            each.commit(write_of(each, fields={"body_mass": rows(2, 1)}))

    torch.testing.assert_close(backend.model_field("body_mass")[1, 1].item(), 6.921 * 1.1, atol=1e-6, rtol=0)
    assert torch.equal(torch.stack(drive(backend, 40)), torch.stack(drive(once, 40)))


def test_derived_constants_follow_as_if_the_model_had_been_compiled_so() -> None:
    heavy = dataclasses.replace(WALKER, mjcf=WALKER_MJCF.replace('mass="6.921"', 'mass="9.5"'))
    backend, compiled = MujocoBackend(WALKER, 2), MujocoBackend(heavy, 2)

    backend.model_field("body_mass")[1, 1] = 9.5
    backend.commit(write_of(backend, fields={"body_mass": rows(2, 1)}))

    model = compiled._batch.model
    for name in ("body_subtreemass", "body_invweight0", "dof_invweight0"):
        np.testing.assert_array_equal(backend._batch.expanded(name)[1], getattr(model, name))
    assert torch.equal(torch.stack(drive(backend, 40))[:, 1], torch.stack(drive(compiled, 40))[:, 1])


def test_rows_outside_the_mask_keep_their_values_until_it_names_them() -> None:
    backend, plain = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    mass = backend.model_field("body_mass")
    mass[:, 1] = 9.0

    backend.commit(write_of(backend, fields={"body_mass": rows(3, 1)}))

    seen, expected = torch.stack(drive(backend, 30)), torch.stack(drive(plain, 30))
    assert torch.equal(seen[:, [0, 2]], expected[:, [0, 2]])
    assert not torch.equal(seen[:, 1], expected[:, 1])


def test_a_field_write_alone_leaves_the_views() -> None:
    backend = MujocoBackend(WALKER, 2)
    drive(backend, 5)
    before = backend.state.sensordata.clone()

    change(backend, "body_mass", row=1)

    assert torch.equal(backend.state.sensordata, before)


def test_a_reset_keeps_the_row_s_model_fields() -> None:
    backend, reset = MujocoBackend(WALKER, 2), MujocoBackend(WALKER, 2)
    for each in (backend, reset):
        change(each, "body_mass", row=1)

    drive(reset, 10)
    write = write_of(reset, reset=rows(2, 0, 1))
    write.qpos[:] = torch.tensor(WALKER.index.default_qpos)
    write.qvel[:] = 0.0
    reset.commit(write)
    backend.commit(write)

    assert torch.equal(torch.stack(drive(reset, 20)), torch.stack(drive(backend, 20)))


def test_a_field_bound_after_a_step_starts_nominal_and_works() -> None:
    backend, plain = MujocoBackend(WALKER, 2), MujocoBackend(WALKER, 2)
    drive(backend, 10)
    drive(plain, 10)

    change(backend, "opt.gravity", row=1)

    seen, expected = torch.stack(drive(backend, 10)), torch.stack(drive(plain, 10))
    assert torch.equal(seen[:, 0], expected[:, 0])
    assert not torch.equal(seen[:, 1], expected[:, 1])


def test_the_engine_leaves_a_field_bound_late_at_zero_which_is_why_the_adapter_binds_at_construction() -> None:
    backend = MujocoBackend(WALKER, 2)
    drive(backend, 1)

    assert not backend._batch.bind("xpos").any()


def test_a_field_s_table_keeps_its_storage_and_is_given_again() -> None:
    backend = MujocoBackend(WALKER, 2)

    table = backend.model_field("geom_friction")

    assert table.shape == (2, 4, 3)
    assert table.dtype == torch.float32
    assert backend.model_field("geom_friction") is table


def test_an_undeclared_field_is_refused_with_the_nearest_name() -> None:
    backend = MujocoBackend(WALKER, 2)

    with pytest.raises(CapabilityError, match="did you mean 'body_mass'"):
        backend.model_field("body_mas")


def test_a_field_that_was_never_bound_cannot_be_committed() -> None:
    backend = MujocoBackend(WALKER, 2)

    with pytest.raises(ConfigurationError, match="bound model field 'body_mass'"):
        backend.commit(write_of(backend, fields={"body_mass": rows(2, 0)}))


def test_a_table_row_that_is_not_finite_is_refused_before_anything_is_applied() -> None:
    backend, plain = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    backend.model_field("body_mass")[2, 1] = float("nan")

    with pytest.raises(SimulationError, match=r"'body_mass' is not finite in envs \[2\]"):
        backend.commit(write_of(backend, reset=rows(3, 0), fields={"body_mass": rows(3, 1, 2)}))

    assert torch.equal(torch.stack(drive(backend, 5)), torch.stack(drive(plain, 5)))


def test_a_mass_that_the_engine_refuses_is_an_error_of_ours() -> None:
    backend = MujocoBackend(SLIDER, 2)
    backend.model_field("body_ipos")[1] = torch.tensor([0.3, 0.0, 0.0])

    with pytest.raises(SimulationError, match="simple"):
        backend.commit(write_of(backend, fields={"body_ipos": rows(2, 1)}))
