"""Snapshots of MjwarpBackend: on the CPU device, continuing from one is continuing to the bit."""

from typing import TYPE_CHECKING

import pytest
import torch

from domain.errors import DataError
from tests.adapters.mjwarp.worlds import make
from tests.adapters.mujoco.small_scenes import drive, rows, write_of

if TYPE_CHECKING:
    from adapters.mjwarp.backend import MjwarpBackend

pytestmark = pytest.mark.slow
FIELDS = ("body_mass", "body_ipos", "geom_friction", "opt.gravity")


def bound() -> "MjwarpBackend":
    backend = make(num_envs=4)
    for name in FIELDS:
        backend.model_field(name)
    return backend


def randomised() -> "MjwarpBackend":
    """Return a backend in mid-run whose rows 1 and 3 have their own mass, centre of mass, friction and gravity."""
    backend = bound()
    for name in FIELDS:
        table = backend.model_field(name)
        table[1] *= 1.13
        table[3] *= 0.87
    backend.commit(write_of(backend, fields=dict.fromkeys(FIELDS, rows(4, 1, 3))))
    drive(backend, 15)
    backend.commit(write_of(backend, written=rows(4, 0)))
    return backend


def test_the_same_backend_continues_bit_for_bit() -> None:
    backend = randomised()
    snapshot = backend.snapshot()
    expected = torch.stack(drive(backend, 30))

    backend.restore(snapshot)

    assert torch.equal(torch.stack(drive(backend, 30)), expected)


def test_a_fresh_backend_continues_bit_for_bit_and_can_be_randomised_alike() -> None:
    backend, fresh = randomised(), bound()

    fresh.restore(backend.snapshot())

    assert torch.equal(fresh.state.sensordata, backend.state.sensordata)
    assert torch.equal(torch.stack(drive(fresh, 20)), torch.stack(drive(backend, 20)))
    for each in (backend, fresh):
        each.model_field("body_mass")[2, 1] = 8.0
        each.commit(write_of(each, reset=rows(4, 2), fields={"body_mass": rows(4, 2)}))
    assert torch.equal(torch.stack(drive(fresh, 20)), torch.stack(drive(backend, 20)))


def test_derived_constants_return_with_a_snapshot_from_before_the_randomisation() -> None:
    backend, plain = bound(), bound()
    snapshot = backend.snapshot()
    for name in FIELDS:
        backend.model_field(name)[2] *= 1.2
    backend.commit(write_of(backend, fields=dict.fromkeys(FIELDS, rows(4, 2))))
    drive(backend, 5)

    backend.restore(snapshot)

    assert torch.equal(torch.stack(drive(backend, 20)), torch.stack(drive(plain, 20)))


def test_a_refused_write_that_the_next_step_will_report_is_part_of_the_snapshot() -> None:
    backend, fresh = make(), make()
    write = write_of(backend, written=rows(3, 1))
    write.qvel[1, 0] = float("nan")
    backend.commit(write)

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
    backend, plain = make(num_envs=4), make(num_envs=4)

    with pytest.raises(DataError, match=r"'qpos' is \(3, 9\) torch.float32 in the snapshot, \(4, 9\)"):
        backend.restore(make(num_envs=3).snapshot())

    assert torch.equal(torch.stack(drive(backend, 5)), torch.stack(drive(plain, 5)))


def test_a_missing_entry_is_refused() -> None:
    snapshot = bound().snapshot()
    del snapshot["ctrl"]

    with pytest.raises(DataError, match="lacks 'ctrl'"):
        bound().restore(snapshot)


def test_other_bound_fields_are_refused() -> None:
    with pytest.raises(DataError, match=r"has bound \[\]"):
        make(num_envs=4).restore(bound().snapshot())
