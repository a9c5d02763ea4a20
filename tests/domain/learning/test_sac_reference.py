"""SAC's updates equal the equations, in numbers that no other run has."""

from dataclasses import replace
from functools import partial

import pytest

from domain.learning.config import ExecutionCfg, SacCfg
from domain.learning.sac import SacLearner
from tests.support.reference_sac import sac_cycle, sac_deterministic_action
from tests.support.reference_trial import GAMMA, ROWS, Batches, Conditions, differences, plan

SMALL = SacCfg(
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
    alpha_lr=5e-3,
    weight_decay=0.02,
    target_entropy_ratio=0.5,
)
CASES = {
    "plain": (SMALL, Conditions()),
    "normalized observations": (replace(SMALL, obs_normalization=True), Conditions()),
    "normalized, critics see obs": (replace(SMALL, obs_normalization=True), Conditions(critic_obs=0)),
    "clipped gradients": (replace(SMALL, max_grad_norm=0.05), Conditions()),
    "critics see obs": (SMALL, Conditions(critic_obs=0)),
    "more atoms": (replace(SMALL, atoms=51), Conditions()),
    "three updates a cycle": (replace(SMALL, updates_per_step=3), Conditions(updates=3)),
    "high temperature": (SMALL, Conditions(log_alpha=0.5)),
    "low temperature": (SMALL, Conditions(log_alpha=-9.0)),
    "first optimiser steps": (SMALL, Conditions(step=0)),
    "a reward is not a number": (SMALL, Conditions(not_a_number="reward")),
    "an observation is not a number": (replace(SMALL, policy_frequency=1), Conditions(not_a_number="obs")),
    "a successor is not a number": (replace(SMALL, policy_frequency=1), Conditions(not_a_number="next_obs")),
}


@pytest.mark.parametrize("case", CASES)
def test_two_cycles_equal_the_equations(case: str) -> None:
    cfg, conditions = CASES[case]
    reference = partial(sac_cycle, cfg=cfg), partial(sac_deterministic_action, cfg=cfg)

    def build(batches: Batches) -> SacLearner:
        return SacLearner(cfg, plan(conditions), batches, ExecutionCfg())

    assert differences(build, reference, conditions) == []
