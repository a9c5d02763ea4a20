"""Several ranks, as ``torchrun`` starts them: RSL-RL's own set-up, reached without its runner's work."""

import os
from dataclasses import dataclass
from typing import Any

import torch

from domain.errors import DeviceError


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among those that learn together; one process alone is rank 0 of 1."""

    rank: int
    local_rank: int
    world_size: int
    device: torch.device
    """The learner's, with its index."""


def read_ranks(device: torch.device) -> Ranks:
    """Read the launcher's environment variables; starts nothing.

    Args:
        device: As the user asked for it; ``cuda`` without an index stands for this rank's own GPU.

    Raises:
        DeviceError: Several ranks on anything but each its own CUDA device, or a variable that is no rank.
    """
    world_size = _variable("WORLD_SIZE", 1)
    if world_size <= 1:
        return Ranks(rank=0, local_rank=0, world_size=1, device=device)
    rank, local_rank = _variable("RANK", 0), _variable("LOCAL_RANK", 0)
    if not (0 <= rank < world_size and 0 <= local_rank < world_size):
        raise DeviceError(
            f"RANK is {rank} and LOCAL_RANK is {local_rank}, outside 0 to {world_size - 1}: see WORLD_SIZE"
        )
    if device.type != "cuda":
        raise DeviceError(
            f"WORLD_SIZE is {world_size} but the device is {device}: several ranks need a CUDA device each; "
            "unset WORLD_SIZE, or use --device cuda under torchrun"
        )
    if device.index not in (None, local_rank):
        raise DeviceError(f"the device is {device} but LOCAL_RANK is {local_rank}: use --device cuda under torchrun")
    return Ranks(rank=rank, local_rank=local_rank, world_size=world_size, device=torch.device("cuda", local_rank))


def join(ranks: Ranks) -> dict[str, Any] | None:
    """Meet the other ranks and return what RSL-RL's algorithms want to know of them; None for one process."""
    if ranks.world_size == 1:
        return None
    # The runner's module imports GitPython, which fails without a git executable unless told to be quiet.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    from rsl_rl.runners import OnPolicyRunner

    class Launch(OnPolicyRunner):  # type: ignore[misc]  # rsl_rl ships no types
        """A runner that stops after its multi-GPU set-up."""

        def __init__(self, device: str) -> None:
            self.cfg: dict[str, Any] = {}
            self.device = device
            self._configure_multi_gpu()

    joined: dict[str, Any] = Launch(str(ranks.device)).cfg["multi_gpu"]
    return joined


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise DeviceError(f"{name} is '{text}', not a whole number: unset it, or start through torchrun") from None
