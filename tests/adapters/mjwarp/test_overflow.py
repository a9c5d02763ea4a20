"""Buffers that are too small are reported with the size to give, and never in silence."""

import pytest
import torch

from adapters.mjwarp.capacities import Capacities
from domain.errors import ConfigurationError
from tests.adapters.mjwarp.worlds import ROOM, hold, make
from tests.adapters.mujoco.small_scenes import WALKER, rows, write_of

pytestmark = pytest.mark.slow


def test_nothing_is_reported_where_everything_fits() -> None:
    backend = make()

    hold(backend, 30)

    assert backend.notice() is None


def test_a_lack_of_constraints_ends_the_row_and_names_the_number_needed() -> None:
    """FR-52."""
    backend = make(capacities=Capacities(contacts=48, constraints=1))
    write = write_of(backend, written=rows(3, 1))
    write.qpos[1, 2] = 5.0  # out of reach of the floor; its two frictional joints still need a row each

    backend.commit(write)
    hold(backend, 12)

    assert backend.state.diverged.tolist() == [True, True, True]
    assert torch.cat([backend.state.qpos, backend.state.qvel, backend.state.sensordata], dim=1).isfinite().all()
    report = backend.notice()
    assert report is not None
    assert "3 of 3 envs had more than 1 constraints" in report
    assert "set at least scene.max_contacts=48 and scene.max_constraints=10" in report
    enough = make(capacities=Capacities(contacts=48, constraints=10))
    hold(enough, 12)
    assert enough.notice() is None


def test_a_lack_of_contacts_is_reported_for_the_pool_and_lasts() -> None:
    backend = make(num_envs=8, capacities=Capacities(contacts=1, constraints=128))

    hold(backend, 12)
    put_up = write_of(backend, reset=rows(8, *range(8)))
    put_up.qpos[:] = torch.tensor(WALKER.index.default_qpos)
    put_up.qpos[:, 2] = 3.0
    backend.commit(put_up)
    hold(backend, 2)

    report = backend.notice()
    assert report is not None
    assert "all envs together had more than 8 x 1 contacts" in report
    needed = int(report.partition("max_contacts=")[2].partition(" ")[0])
    enough = make(num_envs=8, capacities=Capacities(contacts=needed, constraints=128))
    hold(enough, 12)
    assert enough.notice() is None


def test_the_probe_finds_room_for_a_falling_robot() -> None:
    backend = make(capacities=None)
    generator = torch.Generator().manual_seed(7)

    for _ in range(100):
        backend.control.copy_(torch.randn(3, 2, generator=generator))
        backend.step(2)

    assert backend.notice() is None
    assert 16 <= backend.capacities.contacts <= 64
    assert 42 <= backend.capacities.constraints <= 160


def test_two_probes_choose_alike() -> None:
    assert make(capacities=None).capacities == make(num_envs=5, capacities=None).capacities


@pytest.mark.parametrize("name", ["contacts", "constraints"])
def test_capacities_below_one_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"capacities.{name} is 0"):
        Capacities(**{"contacts": 1, "constraints": 1, name: 0})


def test_the_room_of_these_tests_is_no_less_than_the_probe_s() -> None:
    chosen = make(capacities=None).capacities

    assert chosen.contacts <= ROOM.contacts
    assert chosen.constraints <= ROOM.constraints
