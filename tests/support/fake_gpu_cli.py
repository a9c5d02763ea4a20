"""The command itself on a machine that claims to have an Apple GPU, which is a fake transfer on CPU tensors.

python -m tests.support.fake_gpu_cli train cartpole_balance --algo sac ...
"""

import sys
from collections.abc import Sequence

import torch
from dependency_injector import providers

from adapters.system.probe import LocalSystem
from application.system import Device
from domain.transfer import Transfer
from entrypoints.cli.main import main
from entrypoints.container import Container
from tests.support.fake_transfer import FakeTransfer

TINY = (
    "sac.batch_size=16",
    "sac.updates_per_step=2",
    "sac.learning_start_rows=24",
    "sac.replay_rows=400",
    "sac.actor_hidden=[16]",
    "sac.critic_hidden=[16]",
    "train.num_envs=4",
)


class Machine(LocalSystem):
    """This machine and one GPU more."""

    def devices(self) -> Sequence[Device]:
        return [*super().devices(), Device(name="mps", description="a fake", memory_bytes=None)]

    def free_memory(self, device: str) -> int | None:
        return None


def fake_transfer(device: torch.device, graphs: bool) -> Transfer:
    return FakeTransfer(seed=3, slowest=4)


def pretend() -> None:
    """Let every container of this process see the fake GPU."""
    Container.system.override(providers.Singleton(Machine))
    Container.transfers.set_providers(mps=providers.Factory(fake_transfer))


if __name__ == "__main__":
    pretend()
    sys.exit(main(sys.argv[1:]))
