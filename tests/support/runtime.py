"""A whole off-policy runtime over fakes, and a learner that remembers what it saw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from application.tick import OffPolicyRuntime, RuntimeCfg
from domain.learning.reward_scaling import RewardScaler
from domain.replay.replay import Replay, ReplayPlan
from domain.timing import TickTrace, TraceHeader
from domain.transfer import Transfer
from tests.support.fake_collector import LAYOUT, FakeCollector
from tests.support.fake_transfer import CPU, FakeTransfer


class RememberingLearner:
    """Answers with its policy version, and keeps the batches that it was given."""

    def __init__(self, replay: Replay) -> None:
        self.actor = nn.Identity()
        self.generator = torch.Generator()
        self.policy_version = 0
        self.calls: list[str] = []
        self.batches: list[Tensor] = []
        self.rewards: list[Tensor] = []
        self._replay = replay

    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        self.calls.append("act")
        return torch.full((len(obs), LAYOUT.action), float(self.policy_version))

    def start_episodes(self, mask: Tensor) -> None:
        self.calls.append(f"start {int(mask.sum())}")

    def update(self, slot: int) -> Mapping[str, Tensor]:
        self.calls.append(f"update {slot}")
        self.batches.append(self._replay.batches[slot].rows.clone())
        self.rewards.append(self._replay.batches[slot].reward.clone())
        self.policy_version += 1
        return {"critic_loss": torch.tensor(float(self.policy_version)), "actor_loss": torch.tensor(torch.nan)}

    def state_dict(self) -> dict[str, object]:
        return {"policy_version": self.policy_version, "tensors": {}}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        version = state["policy_version"]
        assert isinstance(version, int)
        self.policy_version = version


def replay_plan(collector: FakeCollector, *, capacity: int = 40, n_step: int = 1, seed: int = 1) -> ReplayPlan:
    """Two updates of 8 rows a cycle."""
    return ReplayPlan(
        slots=collector.slots.plan, capacity=capacity, updates=2, batch_size=8, gamma=0.9, n_step=n_step, seed=seed
    )


@dataclass
class Runtime:
    """A runtime and all that it is made of."""

    collector: FakeCollector
    transfer: FakeTransfer
    replay: Replay
    learner: RememberingLearner
    runtime: OffPolicyRuntime
    header: TraceHeader
    traces: list[TickTrace] = field(default_factory=list)

    def ticks(self, number: int) -> None:
        first = len(self.collector.grants)
        for tick in range(first, first + number):
            self.runtime.tick(tick)


def make_runtime(
    *,
    learning_start: int = 12,
    transfer: FakeTransfer | None = None,
    collector: FakeCollector | None = None,
    plan: Callable[[FakeCollector], ReplayPlan] = replay_plan,
    tick_timeout_s: float = 5.0,
    scaler: RewardScaler | None = None,
) -> Runtime:
    collector = collector or FakeCollector(4)
    transfer = transfer or FakeTransfer()
    replay = Replay(plan(collector), CPU, scaler)
    learner = RememberingLearner(replay)
    port: Transfer = transfer
    cfg = RuntimeCfg(tick_timeout_s=tick_timeout_s, learning_start=learning_start, checksums=True)
    runtime = OffPolicyRuntime(learner, replay, collector, port, cfg)
    learner.calls.clear()
    made = Runtime(collector, transfer, replay, learner, runtime, runtime.header(0))
    runtime.trace = made.traces.append
    return made
