"""Rewards and episode ends of one rollout, and the bootstrap of time-outs from final observations."""

from collections.abc import Callable

import torch
from torch import Tensor

from domain.env import StepResult


class RolloutRewards:
    """Keeps what each step returned on the environment's device until the rollout is full.

    Args:
        steps: Of a rollout.
        num_envs: Rows.
        group: The observation group that the critic sees.
        width: Its columns.
        device: The environment's.
    """

    def __init__(self, steps: int, num_envs: int, group: str, width: int, device: torch.device) -> None:
        self._group = group
        self._reward = torch.zeros(steps, num_envs, device=device)
        self._ended = torch.zeros(steps, num_envs, dtype=torch.bool, device=device)
        self._time_out = torch.zeros(steps, num_envs, dtype=torch.bool, device=device)
        self._final = torch.zeros(steps, num_envs, width, device=device)
        self._on_host = device.type == "cpu"

    def record(self, step: int, result: StepResult) -> None:
        """Copy the step's reward and ends, and its final observations where a value of them may be needed."""
        self._reward[step].copy_(result.reward)
        torch.logical_or(result.terminated, result.truncated, out=self._ended[step])
        time_out = torch.logical_and(result.truncated, ~result.terminated, out=self._time_out[step])
        # Asking a device would stall it; the rows that are not needed are never read, so the numbers are the same.
        if not self._on_host or bool(time_out.any()):
            self._final[step].copy_(result.final_observations[self._group])

    def settle(self, value: Callable[[Tensor], Tensor], gamma: float, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return rewards and ends of the whole rollout on ``device``, both (steps, num_envs).

        Args:
            value: The critic: observations (rows, width) to values (rows,), both on ``device``.
            gamma: Discount of a step.
            device: The learner's.
        """
        reward = self._reward.to(device, copy=True)
        steps, rows = self._time_out.nonzero(as_tuple=True)
        if len(steps):
            final = self._final[steps, rows].to(device)
            reward[steps.to(device), rows.to(device)] += gamma * value(final)
        return reward, self._ended.to(device)
