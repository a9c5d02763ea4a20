"""Snapshots of MujocoBackend: continuing from one is continuing, to the bit."""

import math

import pytest
import torch

from adapters.mujoco.backend import MujocoBackend
from domain.errors import DataError
from tests.adapters.mujoco.small_scenes import WALKER, drive, rows, write_of

FIELDS = ("body_mass", "body_ipos", "geom_friction", "opt.gravity")


def randomised(num_envs: int = 4) -> MujocoBackend:
    """Return a backend in mid-run whose rows 1 and 3 have their own mass, centre of mass, friction and gravity."""
    backend = MujocoBackend(WALKER, num_envs)
    chosen = rows(num_envs, 1, 3)
    for name in FIELDS:
        table = backend.model_field(name)
        table[1] *= 1.13
        table[3] *= 0.87
    backend.commit(write_of(backend, fields=dict.fromkeys(FIELDS, chosen)))
    drive(backend, 15)
    backend.commit(write_of(backend, written=rows(num_envs, 0)))
    return backend


def bound(num_envs: int = 4) -> MujocoBackend:
    backend = MujocoBackend(WALKER, num_envs)
    for name in FIELDS:
        backend.model_field(name)
    return backend


def test_the_same_backend_continues_bit_for_bit() -> None:
    backend = randomised()
    snapshot = backend.snapshot()
    expected = torch.stack(drive(backend, 30))

    backend.restore(snapshot)

    assert torch.equal(torch.stack(drive(backend, 30)), expected)


def test_a_fresh_backend_continues_bit_for_bit_with_randomised_mass() -> None:
    backend, fresh = randomised(), bound()

    fresh.restore(backend.snapshot())

    assert torch.equal(fresh.state.sensordata, backend.state.sensordata)
    assert torch.equal(fresh.model_field("body_mass"), backend.model_field("body_mass"))
    assert torch.equal(torch.stack(drive(fresh, 30)), torch.stack(drive(backend, 30)))


def test_a_restored_row_can_be_randomised_again_alike() -> None:
    backend, fresh = randomised(), bound()
    fresh.restore(backend.snapshot())

    for each in (backend, fresh):
        each.model_field("body_mass")[2, 1] = 8.0
        each.commit(write_of(each, reset=rows(4, 2), fields={"body_mass": rows(4, 2)}))

    assert torch.equal(torch.stack(drive(fresh, 30)), torch.stack(drive(backend, 30)))


def test_derived_constants_return_to_nominal_with_a_snapshot_from_before_the_randomisation() -> None:
    backend, plain = bound(), bound()
    snapshot = backend.snapshot()
    for name in FIELDS:
        backend.model_field(name)[2] *= 1.2
    backend.commit(write_of(backend, fields=dict.fromkeys(FIELDS, rows(4, 2))))
    drive(backend, 5)

    backend.restore(snapshot)

    assert torch.equal(torch.stack(drive(backend, 30)), torch.stack(drive(plain, 30)))


def test_a_divergence_that_the_next_step_will_report_is_part_of_the_snapshot() -> None:
    backend, fresh = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    backend._qvel[1, 0] = math.nan
    backend._engine(backend._batch.forward)

    fresh.restore(backend.snapshot())
    fresh.step(1)

    assert fresh.state.diverged.tolist() == [False, True, False]


def test_a_snapshot_is_a_copy() -> None:
    backend = randomised()
    snapshot = backend.snapshot()
    before = {name: tensor.clone() for name, tensor in snapshot.items()}

    drive(backend, 3)
    backend.model_field("body_mass")[:] = 1.0

    assert all(torch.equal(snapshot[name], before[name]) for name in before)


def test_another_number_of_envs_is_refused_and_changes_nothing() -> None:
    backend, plain = bound(4), bound(4)

    with pytest.raises(DataError, match=r"'state' is \(3, \d+\) float64 in the snapshot"):
        backend.restore(randomised(num_envs=4).snapshot() | {"state": torch.zeros(3, 50, dtype=torch.float64)})

    assert torch.equal(torch.stack(drive(backend, 5)), torch.stack(drive(plain, 5)))


def test_a_missing_entry_is_refused() -> None:
    snapshot = randomised().snapshot()
    del snapshot["control"]

    with pytest.raises(DataError, match="lacks 'control'"):
        bound().restore(snapshot)


def test_other_bound_fields_are_refused() -> None:
    backend = MujocoBackend(WALKER, 4)

    with pytest.raises(DataError, match=r"has bound \[\]"):
        backend.restore(randomised().snapshot())
