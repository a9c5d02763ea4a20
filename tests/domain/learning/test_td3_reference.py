"""TD3's updates equal the equations, in numbers that no other run has."""

from dataclasses import replace
from functools import partial

import pytest

from domain.learning.config import ExecutionCfg, Td3Cfg
from domain.learning.td3 import Td3Learner
from tests.support.reference_td3 import td3_cycle, td3_deterministic_action
from tests.support.reference_trial import GAMMA, ROWS, Batches, Conditions, differences, plan

SMALL = Td3Cfg(
    batch_size=ROWS,
    updates_per_step=4,
    policy_frequency=2,
    gamma=GAMMA,
    tau=0.1,
    replay_rows=1000,
    learning_start_rows=ROWS,
    atoms=21,
    v_min=-6.0,
    v_max=5.0,
    actor_hidden=(16, 8),
    critic_hidden=(16, 12),
    actor_lr=2e-3,
    critic_lr=3e-3,
    weight_decay=0.05,
    max_grad_norm=0.0,
    obs_normalization=False,
    policy_noise=0.3,
    noise_clip=0.4,
    clipped_double_q=True,
)
CASES = {
    "plain": (SMALL, Conditions()),
    "normalized observations": (replace(SMALL, obs_normalization=True), Conditions()),
    "normalized, critics see obs": (replace(SMALL, obs_normalization=True), Conditions(critic_obs=0)),
    "clipped gradients": (replace(SMALL, max_grad_norm=0.05), Conditions()),
    "no clipped double Q": (replace(SMALL, clipped_double_q=False), Conditions()),
    "critics see obs": (SMALL, Conditions(critic_obs=0)),
    "more atoms": (replace(SMALL, atoms=51), Conditions()),
    "three updates a cycle": (replace(SMALL, updates_per_step=3), Conditions(updates=3)),
    "first optimiser steps": (SMALL, Conditions(step=0)),
    "a reward is not a number": (SMALL, Conditions(not_a_number="reward")),
    "an observation is not a number": (replace(SMALL, policy_frequency=1), Conditions(not_a_number="obs")),
    "a successor is not a number": (replace(SMALL, policy_frequency=1), Conditions(not_a_number="next_obs")),
}


@pytest.mark.parametrize("case", CASES)
def test_two_cycles_equal_the_equations(case: str) -> None:
    cfg, conditions = CASES[case]
    reference = partial(td3_cycle, cfg=cfg), partial(td3_deterministic_action, cfg=cfg)

    def build(batches: Batches) -> Td3Learner:
        return Td3Learner(cfg, plan(conditions), batches, ExecutionCfg())

    assert differences(build, reference, conditions) == []
