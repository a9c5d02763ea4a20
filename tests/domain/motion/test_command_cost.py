"""What a step of the command costs: operations that are counted, and no transfer."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv
from tests.support.dispatches import CountDispatches
from tests.support.follower import command_of, make_clip, motion_env, step
from tests.support.host_sync import ForbidHostSync
from tests.support.small_env import ends, fails_at

SPREAD: dict[str, Any] = {
    "pose": {"x": (-0.1, 0.1), "yaw": (-0.2, 0.2)},
    "velocity": {"x": (-0.1, 0.1)},
    "joint_pos": (-0.1, 0.1),
}
CLIPS = [make_clip(7), make_clip(60)]


def resident_env(num_envs: int = 4, sampling: str = "adaptive", *, truncates: bool = False) -> ManagerBasedRlEnv:
    env = motion_env(
        CLIPS,
        num_envs,
        sampling=sampling,
        truncate_on_clip_end=truncates,
        resident=True,
        terminations={"fall": ends(fails_at, row=1, step=3)},
        kernel_size=3,
        **SPREAD,
    )
    step(env, 2)
    return env


def count(env: ManagerBasedRlEnv, live: Tensor) -> CountDispatches:
    """Do what a step asks of the command, with the rows that are not ``live`` reset, and count."""
    counts, writes, done = CountDispatches(), env.view.writes, ~live
    with counts:
        env.commands.advance()
    writes.begin_step()
    with writes.transaction(live, "commands", command=True), counts:
        env.commands.compute(live)
    with writes.transaction(done, "reset"), counts:
        env.commands.reset(done)
    writes.commit()
    return counts


READS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "branch": lambda x: 1 if (x > 1.0).any() else 0,
    "nonzero": lambda x: x.nonzero(),
    "masked_select": lambda x: x.masked_select(x > 1.0),
    "index by bool": lambda x: x[x > 1.0],
    "equal": lambda x: torch.equal(x, x),
    "numbers": lambda x: torch.tensor([1.0, 2.0]),
    "to another device": lambda x: x.to("meta"),
    "copy to another device": lambda x: torch.empty(3, device="meta").copy_(x),
}


@pytest.mark.parametrize("name", READS)
def test_a_transfer_is_counted(name: str) -> None:
    x = torch.arange(3.0)

    with CountDispatches() as counts:
        READS[name](x)

    assert counts.transfers == 1


def test_operations_are_counted_and_views_are_not() -> None:
    x = torch.arange(6.0).reshape(2, 3)

    with CountDispatches() as counts:
        y = x.T.unsqueeze(0) + 1.0
        y[:, 1].copy_(y[:, 0])
        torch.index_select(y, 1, torch.arange(2))

    assert counts.names == {"add": 1, "copy_": 1, "arange": 1, "index_select": 1}
    assert (counts.total, counts.transfers) == (4, 0)


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("sampling", ["start", "clip_start", "uniform", "adaptive"])
def test_a_step_of_the_command_transfers_nothing(sampling: str, truncates: bool) -> None:
    env = resident_env(sampling=sampling, truncates=truncates)

    counts = count(env, torch.tensor([True, False, True, True]))

    assert counts.transfers == 0
    assert counts.total > 100


@pytest.mark.parametrize("truncates", [False, True])
def test_the_number_of_operations_depends_neither_on_envs_nor_on_rows_that_start(truncates: bool) -> None:
    totals = set()
    for num_envs, ended in ((4, 0), (4, 1), (4, 4), (64, 0), (64, 40)):
        env = resident_env(num_envs, truncates=truncates)
        totals.add(count(env, torch.arange(num_envs) >= ended).total)

    assert len(totals) == 1


def test_steps_with_wraps_take_as_many_operations_as_those_without() -> None:
    env = motion_env([make_clip(4)], 4, sampling="start", resident=True)

    totals = [count(env, torch.ones(4, dtype=torch.bool)).total for _ in range(8)]

    assert command_of(env).frame.tolist() == [0, 0, 0, 0]
    assert len(set(totals)) == 1


@pytest.mark.parametrize("truncates", [False, True])
def test_whole_steps_never_wait(truncates: bool) -> None:
    env = resident_env(truncates=truncates)

    with ForbidHostSync():
        step(env, 20)

    assert int(env.view.step_count) == 22
