"""Brings observation groups to the learner's device in one copy a step."""

from collections.abc import Mapping

import torch
from tensordict import TensorDict
from torch import Tensor

from application.ports import Observations


class ObservationIntake:
    """Packs the groups that are needed, copies them at once, and hands out views of the copy.

    Where environment and learner share a device nothing is copied: the caller's tensors are handed out.

    Args:
        widths: Columns of each group.
        num_envs: Rows.
        source: The environment's device.
        target: The learner's device.
    """

    def __init__(self, widths: Mapping[str, int], num_envs: int, source: torch.device, target: torch.device) -> None:
        self._widths = widths
        self._num_envs = num_envs
        self._target = target
        self._staging: Tensor | None = None
        if source != target:
            pinned = source.type == "cpu" and target.type == "cuda"
            width = sum(widths.values())
            self._staging = torch.empty(num_envs, width, device="cpu" if pinned else source, pin_memory=pinned)

    def __call__(self, observations: Observations) -> TensorDict:
        """Return the groups on the learner's device.

        A caller that crosses devices waits for its result before the next call, so the staging memory is free then.
        """
        groups = [observations[name] for name in self._widths]
        if self._staging is not None:
            torch.cat(groups, dim=1, out=self._staging)
            copied = self._staging.to(self._target, non_blocking=True)
            groups = list(copied.split(list(self._widths.values()), dim=1))
        return TensorDict(dict(zip(self._widths, groups, strict=True)), batch_size=[self._num_envs])
