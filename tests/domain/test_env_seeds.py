"""What a seed decides."""

import torch

from domain.env import ManagerBasedRlEnv
from tests.support.fake_backend import FakeBackend
from tests.support.full_task import drive, full_env


def masses(env: ManagerBasedRlEnv) -> torch.Tensor:
    backend = env.view.backend
    assert isinstance(backend, FakeBackend)
    return backend.effective_field("body_mass")


def test_a_seed_decides_start_up_draws_commands_and_observations() -> None:
    """FR-63."""
    one, same, other = full_env(seed=1), full_env(seed=1), full_env(seed=2)
    assert torch.equal(masses(one), masses(same))
    assert not torch.equal(masses(one), masses(other))

    for left, right, different in zip(drive(one, 100), drive(same, 100), drive(other, 100), strict=True):
        assert torch.equal(left.observations["actor"], right.observations["actor"])
        assert not torch.equal(left.observations["actor"], different.observations["actor"])
    assert torch.equal(one.view.command("twist"), same.view.command("twist"))


def test_a_reset_with_a_seed_starts_the_stream_anew() -> None:
    env = full_env(seed=1)
    first = env.reset(seed=7)["actor"]
    drive(env, 5)

    assert torch.equal(env.reset(seed=7)["actor"][:, :3], first[:, :3])
    assert not torch.equal(env.reset(seed=8)["actor"][:, :3], first[:, :3])


def test_the_stream_of_an_environment_leaves_the_global_one_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    drive(full_env(), 3)

    assert torch.equal(torch.get_rng_state(), before)
