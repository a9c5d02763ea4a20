"""A learner that only answers what can be foretold, and the smallest SAC."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from benchmarks.soak.world import World
from domain.learning.config import ExecutionCfg, SacCfg
from domain.learning.learner import Learner, LearnerPlan
from domain.learning.sac import SacLearner
from domain.replay.replay import Replay, ReplayPlan


def told_action(seen: Tensor, began: Tensor, version: Tensor) -> Tensor:
    """Return the action, (num_envs, 1), of ToldLearner: exact in float32.

    Args:
        seen: Env, step and age, (num_envs, 3).
        began: (num_envs,), 1 where an episode begins.
        version: 0-dim, of the policy.
    """
    mixed = 7.0 * seen[:, 0] + 3.0 * seen[:, 1] + 5.0 * seen[:, 2] + 13.0 * began + 11.0 * version
    return torch.remainder(mixed, 64.0).div(64.0).unsqueeze(1)


class ToldLearner:
    """Its action says what it saw, which episodes it was told of, and its version.

    Args:
        replay: Its batches are read.
        num_envs: Rows of an action.
        device: Where it works.
    """

    def __init__(self, replay: Replay, num_envs: int, device: torch.device) -> None:
        self.actor = nn.Identity()
        self.generator = torch.Generator(device=device)
        self.policy_version = 0
        self._replay = replay
        self._version = torch.zeros((), device=device)
        self._began = torch.zeros(num_envs, device=device)
        self._loss = torch.zeros((), device=device)

    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Tell."""
        return told_action(obs, self._began, self._version)

    def start_episodes(self, mask: Tensor) -> None:
        """Keep the mask until the next action."""
        self._began.copy_(mask)

    def update(self, slot: int) -> Mapping[str, Tensor]:
        """Read the batch, and count."""
        torch.mean(self._replay.batches[slot].reward, dim=(0, 1), out=self._loss)
        self._version.add_(1.0)
        self.policy_version += 1
        return {"critic_loss": self._loss}

    def state_dict(self) -> dict[str, object]:
        """Return the version, and no tensors."""
        return {"policy_version": self.policy_version, "tensors": {}}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take the version."""
        self.policy_version = int(str(state["policy_version"]))
        self._version.fill_(float(self.policy_version))


def tiny_sac(world: World, plan: ReplayPlan, replay: Replay, device: torch.device) -> Learner:
    """Return a SAC of a few units, recorded where the device can."""
    cfg = SacCfg(
        batch_size=plan.batch_size,
        updates_per_step=plan.updates,
        policy_frequency=2,
        gamma=plan.gamma,
        n_step=plan.n_step,
        # The ring is made elsewhere; these only have to be consistent.
        replay_rows=plan.capacity + plan.batch_size,
        learning_start_rows=1,
        atoms=11,
        actor_hidden=(8,),
        critic_hidden=(8,),
    )
    job = LearnerPlan(
        layout=world.layout,
        num_envs=world.num_envs,
        action_low=(-1.0,),
        action_high=(1.0,),
        device=device,
        seed=world.seed,
    )
    return SacLearner(cfg, job, replay.batches, ExecutionCfg(graph=device.type == "cuda"))
