"""A host may skip masked work that would change nothing; both ways give the same numbers."""

from dataclasses import replace

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from tests.support.fake_backend import FakeBackend
from tests.support.full_task import drive, full_cfg, full_env
from tests.support.small_env import mask


def broken(env: ManagerBasedRlEnv) -> ManagerBasedRlEnv:
    """Break rows in steps 13, 47 and 48."""
    backend = env.view.backend
    assert isinstance(backend, FakeBackend)
    backend.break_row(1, 13)
    backend.break_row(4, 47, "reset")
    backend.break_row(4, 48)
    return env


def test_skipping_and_masking_agree_bit_for_bit_over_100_steps() -> None:
    host, device = broken(full_env()), broken(full_env(device_like=True))
    ended = 0
    for number in range(100):
        (one,), (two,) = drive(host, 1, start=number), drive(device, 1, start=number)
        for name in ("reward", "terminated", "truncated", "valid"):
            assert torch.equal(getattr(one, name), getattr(two, name)), f"{name} of step {number}"
        for group in one.observations:
            assert torch.equal(one.observations[group], two.observations[group]), f"{group} of step {number}"
            assert torch.equal(one.final_observations[group], two.final_observations[group])
        if number % 17 == 0:
            rows = torch.arange(6) == number % 6
            left, right = host.reset(rows), device.reset(rows)
            assert all(torch.equal(value, right[group]) for group, value in left.items())
        ended += int((one.terminated | one.truncated).sum())

    left, right = host.state_dict(), device.state_dict()
    assert [name for name, value in left.items() if not torch.equal(value, right[name])] == []
    assert ended > 10
    assert left["faults/counts"][0] == 3


@pytest.mark.parametrize("device_like", [False, True])
def test_the_generators_position_depends_on_the_number_of_steps_alone(device_like: bool) -> None:
    calm, wild = full_env(device_like=device_like), broken(full_env(device_like=device_like))
    drive(calm, 30)
    for number in range(30):
        wild.step(torch.full((6, 3), 3.0 * (-1) ** number))
        wild.reset(mask(0, 0, 0, 0, 0, 0))

    assert torch.equal(calm.state_dict()["rng/generator"], wild.state_dict()["rng/generator"])


def test_a_rows_numbers_do_not_depend_on_which_other_rows_end() -> None:
    """FR-08: row 0 of a run in which rows 1 and 4 break is row 0 of a run in which they do not.

    Curricula are left out: a stage begins for all rows at the reset of any.
    """
    cfg = replace(full_cfg(), curricula={})
    quiet, noisy = (ManagerBasedRlEnv(cfg, FakeBackend(6), seed=3) for _ in range(2))
    for env in (quiet, broken(noisy)):
        env.reset()
    for one, two in zip(drive(quiet, 60), drive(noisy, 60), strict=True):
        assert torch.equal(one.reward[0], two.reward[0])
        assert torch.equal(one.observations["actor"][0], two.observations["actor"][0])
