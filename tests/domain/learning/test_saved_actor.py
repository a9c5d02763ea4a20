"""A policy from a saved learner is that learner's own, bit for bit, and what does not fit is refused."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.errors import DataError
from domain.learning.config import FlashSacCfg, OffPolicyCfg, SacCfg, Td3Cfg
from domain.learning.learner import Learner
from domain.learning.saved_actor import saved_policy
from tests.support.learners import ALGORITHMS, CPU, FULL, PLAN, learner, observations, part, plan_of, tensors

OBS, ACTIONS = PLAN.layout.obs, PLAN.layout.action
State = Mapping[str, object]


def cfg_of(algorithm: str) -> SacCfg | Td3Cfg | FlashSacCfg:
    cfg: OffPolicyCfg = FULL[algorithm]
    assert isinstance(cfg, SacCfg | Td3Cfg | FlashSacCfg)
    return cfg


def learnt(algorithm: str, num_envs: int = 4, **plan: Any) -> Learner:
    """Return a learner whose weights and normalisers have moved."""
    subject = learner(cfg_of(algorithm), plan=plan_of(ACTIONS, num_envs=num_envs, **plan))
    for slot in (0, 1, 0):
        subject.update(slot)
    return subject


def load(algorithm: str, state: State, *, obs: int = OBS, actions: int = ACTIONS) -> Any:
    example = {"actor": torch.zeros(3, obs), "critic": torch.zeros(3, 7)}
    return saved_policy(cfg_of(algorithm), state, example, actions, CPU)


@pytest.mark.parametrize("rows", [1, 3, 50])
@pytest.mark.parametrize("num_envs", [1, 4, 33])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_action_is_the_learner_s_bit_for_bit_whatever_it_had_of_environments(
    algorithm: str, num_envs: int, rows: int
) -> None:
    subject = learnt(algorithm, num_envs)
    seen = observations(rows)

    policy = load(algorithm, subject.state_dict())

    action: Tensor = policy({"actor": seen, "critic": torch.zeros(rows, 7)})
    assert torch.equal(action, subject.act(seen, deterministic=True))
    assert not action.requires_grad


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_action_has_the_bounds_that_the_actor_learnt_with(algorithm: str) -> None:
    subject = learnt(algorithm, bound=3.0)
    far = 1e3 * observations(200)

    action: Tensor = load(algorithm, subject.state_dict())({"actor": far})

    assert torch.equal(action, subject.act(far, deterministic=True))
    assert float(action.abs().max()) <= 3.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_later_changes_of_the_payload_change_nothing(algorithm: str) -> None:
    state = learnt(algorithm).state_dict()
    policy = load(algorithm, state)
    before = policy({"actor": observations()})

    for tensor in tensors(state).values():
        tensor.zero_()

    assert torch.equal(policy({"actor": observations()}), before)


def with_tensor(state: State, name: str, tensor: Tensor | None) -> State:
    """Return ``state`` with a tensor exchanged, or taken out."""
    others = {key: value for key, value in tensors(state).items() if key != name}
    return {**state, "tensors": others if tensor is None else {**others, name: tensor}}


def with_shape(state: State, **changes: object) -> State:
    return {**state, "shape": part(state, "shape") | changes}


BIAS = "actor/head.bias"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "kind": "td3"}, "was learnt by 'td3', not by 'sac'"),
        (lambda state: {**state, "format": 9}, "has format 9"),
        (lambda state: {**state, "tensors": None}, "entry 'tensors' is missing or damaged"),
        (lambda state: {**state, "shape": 3}, "entry 'shape' is missing or damaged"),
        (lambda state: with_tensor(state, BIAS, None), f"lacks tensor '{BIAS}'"),
        (lambda state: with_tensor(state, "actor/more", torch.zeros(1)), "has an unknown tensor 'actor/more'"),
        (lambda state: with_tensor(state, BIAS, torch.zeros(9)), rf"'{BIAS}' is .* of shape \(9,\), expected .*\(4,\)"),
        (lambda state: with_tensor(state, BIAS, torch.full((4,), torch.nan)), f"'{BIAS}' holds numbers that are not"),
        (lambda state: with_tensor(state, "actor_normalizer/var", None), "lacks tensor 'actor_normalizer/var'"),
        (lambda state: with_shape(state, action_low=[0.0]), r"entry 'shape.action_low' is \[0.0\], not 2 finite"),
        (lambda state: with_shape(state, action_high=None), "entry 'shape.action_high' is None"),
        (lambda state: with_shape(state, action_high=[-1.0, 1.0]), "actions go from .* it is damaged"),
        (lambda state: with_shape(state, obs=6), "maps 6 observations to 2 actions, this environment has 5 and 2"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(change: Any, message: str) -> None:
    state = learnt("sac").state_dict()

    with pytest.raises(DataError, match=message):
        load("sac", change(state))


def test_an_environment_of_other_widths_is_refused_with_both() -> None:
    state = learnt("td3").state_dict()

    with pytest.raises(DataError, match="maps 5 observations to 2 actions, this environment has 5 and 3"):
        load("td3", state, actions=3)
    with pytest.raises(DataError, match="this environment has 0 and 2"):
        saved_policy(cfg_of("td3"), state, {"policy": torch.zeros(1, 5)}, 2, CPU)


def test_settings_of_other_networks_are_refused() -> None:
    state = learnt("flashsac").state_dict()
    declared = cfg_of("flashsac")
    assert isinstance(declared, FlashSacCfg)
    wider = replace(declared, actor_width=16)

    with pytest.raises(DataError, match="the checkpoint's 'actor/.*' is .* expected"):
        saved_policy(wider, state, {"actor": torch.zeros(1, OBS)}, ACTIONS, CPU)
