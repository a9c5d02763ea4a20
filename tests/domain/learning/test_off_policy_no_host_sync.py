"""Acting, starting episodes and learning never wait for the device."""

from dataclasses import replace

import pytest
import torch

from domain.learning.config import ExecutionCfg
from tests.support.host_sync import ForbidHostSync
from tests.support.learners import ALGORITHMS, FLASHSAC, FULL, learner, observations

BF16 = ExecutionCfg(precision="bfloat16")


@pytest.mark.parametrize("execution", [ExecutionCfg(), BF16], ids=lambda execution: execution.precision)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_acting_and_learning_do_not_wait_for_the_device(algorithm: str, execution: ExecutionCfg) -> None:
    subject = learner(replace(FULL[algorithm], max_grad_norm=1.0), execution=execution)
    obs, mask = observations(), torch.tensor([True, False, False, True])

    with ForbidHostSync():
        subject.start_episodes(mask)
        subject.act(obs)
        subject.act(obs, deterministic=True)
        subject.update(0)
        subject.update(1)
        subject.act(obs)


def test_a_policy_that_learns_before_the_critics_does_not_wait_either() -> None:
    subject = learner(replace(FLASHSAC, policy_before_critic=True))

    with ForbidHostSync():
        subject.update(0)
