"""A collector without a process: its rows say in which tick and environment they were made."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from application.ports import EnvReport, Grant, Published
from domain.replay.layout import RowLayout
from domain.replay.slots import ChunkHeader, SlotPlan, Slots, checksum
from tests.support.fake_transfer import CPU

LAYOUT = RowLayout(obs=3, action=2)
"""obs: tick, env, 1; action: what the learner answered; next obs: tick + 1, env, 1."""


class FakeCollector:
    """Does its tick at once when it is granted, in the slot that it was given.

    ``valid`` tells which rows of a tick are; ``mischief`` may change what is published.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        valid: Callable[[int], Tensor] | None = None,
        mischief: Callable[[Published], Published] = lambda published: published,
    ) -> None:
        self.slots = Slots.allocate(SlotPlan(layout=LAYOUT, num_envs=num_envs), CPU)
        self.actions: dict[int, Tensor] = {}
        self.grants: list[Grant] = []
        self.closed = False
        self.first_tick = 0
        self._valid = valid or (lambda tick: torch.ones(num_envs))
        self._mischief = mischief
        self._sequence = 0
        self._published: Published | None = None
        self._envs = torch.arange(num_envs, dtype=torch.float32)
        self._observe(0, 1.0)

    def wait_ready(self, timeout_s: float) -> None:
        self._observe(self.first_tick, 1.0)

    def grant(self, grant: Grant) -> None:
        began = time.perf_counter()
        plan, tick = self.slots.plan, grant.tick
        self.grants.append(grant)
        action = plan.action(self.slots.action).clone()
        self.actions[tick] = action
        block = self.slots.chunks[grant.slot]
        rows, valid = plan.chunk(block)
        columns = plan.layout.columns(rows)
        columns.obs.copy_(self._observation(tick))
        columns.action.copy_(action)
        columns.next_obs.copy_(self._observation(tick + 1))
        columns.reward.copy_(1000.0 * tick + self._envs)
        columns.terminated.zero_()
        columns.truncated.zero_()
        valid.copy_(self._valid(tick))
        self._observe(tick + 1, 0.0)
        header = ChunkHeader(
            sequence=self._sequence,
            tick=tick,
            slot=grant.slot,
            policy_version=grant.policy_version,
            rows=plan.num_envs,
            valid=int(valid.sum()),
            checksum=int(checksum(block)),
        )
        self._sequence += 1
        report = EnvReport(metrics={"episode/return": float(tick)}, faults={}) if grant.report else None
        state = {"tick": torch.tensor(tick)} if grant.state else None
        self._published = self._mischief(
            Published(header=header, began=began, ended=time.perf_counter(), report=report, state=state)
        )

    def wait(self, timeout_s: float) -> Published:
        assert self._published is not None, "waited for a tick that was not granted"
        published, self._published = self._published, None
        return published

    def close(self) -> None:
        self.closed = True

    def _observation(self, tick: int) -> Tensor:
        return torch.stack((torch.full_like(self._envs, tick), self._envs, torch.ones_like(self._envs)), dim=1)

    def _observe(self, tick: int, began: float) -> None:
        obs, flags = self.slots.plan.observation(self.slots.observation)
        obs.copy_(self._observation(tick))
        flags.fill_(began)
