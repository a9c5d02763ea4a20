"""A device-resident step never waits: no value reaches Python, no shape depends on data."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv
from domain.managers.action import ActionTermCfg
from domain.mdp import actions
from tests.support.fake_backend import FakeBackend
from tests.support.full_task import ALL, drive, full_env
from tests.support.host_sync import ForbidHostSync, HostSyncError
from tests.support.small_env import make_env, step

FORBIDDEN: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "branch": lambda x: 1 if (x > 1).any() else 0,
    "equal": lambda x: torch.equal(x, x),
    "nonzero": lambda x: x.nonzero(),
    "where with one argument": lambda x: torch.where(x > 1),
    "masked_select": lambda x: x.masked_select(x > 1),
    "unique": lambda x: torch.unique(x),
    "unique_consecutive": lambda x: torch.unique_consecutive(x),
    "index by bool": lambda x: x[x > 1],
    "write by bool": lambda x: x.__setitem__(x > 1, 0.0),
    "index_put by bool": lambda x: x.index_put((x > 1,), torch.tensor(0.0)),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_each_forbidden_operation_is_caught(name: str) -> None:
    x = torch.arange(3.0)

    with pytest.raises(HostSyncError, match="waits for the device"), ForbidHostSync():
        FORBIDDEN[name](x)


def test_masks_and_integer_indices_are_free() -> None:
    x, ids = torch.arange(3.0), torch.tensor([2, 0])

    with ForbidHostSync():
        y = torch.where(x > 1, x, 0.0)
        y[ids] = y[ids] + 1.0
        y.masked_fill_(y > 2, 9.0)

    assert y.tolist() == [1.0, 0.0, 9.0]


def test_a_backend_may_read_on_its_own_side() -> None:
    backend = FakeBackend(2)

    with ForbidHostSync():
        assert backend.skips(torch.zeros(2, dtype=torch.bool))


def test_a_step_with_every_kind_of_term_never_waits() -> None:
    env = full_env(device_like=True)
    backend = env.view.backend
    assert isinstance(backend, FakeBackend)
    backend.break_row(1, 20)
    drive(env, 5)
    inputs = [torch.randn(6, env.actions.dim, generator=torch.Generator().manual_seed(i)) for i in range(60)]

    with ForbidHostSync():
        ended = [env.step(action) for action in inputs]
        env.drain_episodes()
        env.drain_faults()

    assert sum(int((result.terminated | result.truncated).sum()) for result in ended) > 5


@pytest.mark.parametrize(
    "func",
    [
        actions.JointPositionAction,
        actions.RelativeJointPositionAction,
        actions.JointVelocityAction,
        actions.JointEffortAction,
    ],
)
def test_no_action_term_waits(func: type) -> None:
    term = ActionTermCfg(func=func, params={"joints": ALL, "scale": 0.5, "clip": (-1.0, 1.0)})
    env: ManagerBasedRlEnv = make_env(backend=FakeBackend(2, device_like=True), actions={"a": term})

    with ForbidHostSync():
        step(env, 3)
    assert int(env.view.step_count) == 3
