"""FlashSAC's updates equal the equations, in numbers that no other run has."""

from dataclasses import replace
from functools import partial

import pytest

from domain.learning.config import ExecutionCfg, FlashSacCfg
from domain.learning.flashsac import FlashSacLearner
from tests.support.reference_flashsac import flashsac_cycle, flashsac_deterministic_action
from tests.support.reference_trial import GAMMA, ROWS, Batches, Conditions, differences, plan

SMALL = FlashSacCfg(
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
    actor_width=8,
    critic_width=8,
    lr_init=4e-3,
    lr_end=1e-3,
    lr_horizon=60,
)
CASES = {
    "plain": (SMALL, Conditions()),
    "clipped gradients": (replace(SMALL, max_grad_norm=0.05), Conditions()),
    "policy before critic": (replace(SMALL, policy_before_critic=True), Conditions()),
    "rate at its end": (replace(SMALL, lr_horizon=40), Conditions()),
    "three blocks": (replace(SMALL, blocks=3, expansion=2), Conditions()),
    "critics see obs": (SMALL, Conditions(critic_obs=0)),
    "more atoms": (replace(SMALL, atoms=51), Conditions()),
    "three updates a cycle": (replace(SMALL, updates_per_step=3), Conditions(updates=3)),
    "high temperature": (SMALL, Conditions(log_alpha=1.0)),
    "low temperature": (SMALL, Conditions(log_alpha=-9.0)),
    "first optimiser steps": (SMALL, Conditions(step=0)),
    "a reward is not a number": (SMALL, Conditions(not_a_number="reward")),
}


@pytest.mark.parametrize("case", CASES)
def test_two_cycles_equal_the_equations(case: str) -> None:
    cfg, conditions = CASES[case]
    reference = partial(flashsac_cycle, cfg=cfg), partial(flashsac_deterministic_action, cfg=cfg)

    def build(batches: Batches) -> FlashSacLearner:
        return FlashSacLearner(cfg, plan(conditions), batches, ExecutionCfg())

    assert differences(build, reference, conditions) == []
