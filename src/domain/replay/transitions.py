"""Writes one step of an environment into the blocks that collector and learner share."""

from collections.abc import Mapping

import torch
from torch import Tensor

from domain.env import StepResult
from domain.replay.slots import SlotPlan

ACTOR = "actor"
"""The observation group that policies see."""
CRITIC = "critic"
"""The group that critics see, where the layout gives it columns of its own."""


def write_observation(plan: SlotPlan, block: Tensor, observations: Mapping[str, Tensor], began: Tensor | None) -> None:
    """Write what the next action answers.

    Args:
        plan: Of the block.
        block: An observation block.
        observations: By group, (num_envs, width).
        began: (num_envs,) bool, rows whose episode begins here; None means all.
    """
    rows, flags = plan.observation(block)
    rows.copy_(observations[ACTOR])
    if began is None:
        flags.fill_(1.0)
    else:
        flags.copy_(began)


def write_transitions(
    plan: SlotPlan, block: Tensor, observations: Mapping[str, Tensor], action: Tensor, result: StepResult
) -> None:
    """Write one transition a row, and which rows are valid.

    Args:
        plan: Of the block.
        block: A chunk block; all of it is overwritten.
        observations: What ``action`` answered, by group, (num_envs, width).
        action: (num_envs, action dim), as the policy chose it.
        result: Of the step. The successor of a row that ended is its final observation, from before it began anew; of
            any other row it is what the next action answers, with what events have written to its state.
    """
    done = (result.terminated | result.truncated).unsqueeze(1)
    successor = {
        group: torch.where(done, result.final_observations[group], value)
        for group, value in result.observations.items()
    }
    rows, valid = plan.chunk(block)
    columns = plan.layout.columns(rows)
    columns.obs.copy_(observations[ACTOR])
    columns.next_obs.copy_(successor[ACTOR])
    if plan.layout.critic:
        columns.critic_obs.copy_(observations[CRITIC])
        columns.next_critic_obs.copy_(successor[CRITIC])
    columns.action.copy_(action)
    columns.reward.copy_(result.reward)
    columns.terminated.copy_(result.terminated)
    columns.truncated.copy_(result.truncated)
    valid.copy_(result.valid)
