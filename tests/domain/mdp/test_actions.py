"""Action terms write the right actuators."""

from typing import Any

import pytest
import torch

from domain.entity import EntitySelector
from domain.errors import ConfigurationError
from domain.managers.action import ActionManager, ActionTermCfg
from domain.mdp import actions
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import make_view

ALL = EntitySelector()


def manager(func: Any, joints: EntitySelector = ALL, **params: object) -> tuple[ActionManager, EnvView]:
    view = make_view()
    cfg = ActionTermCfg(func=func, params={"joints": joints, "scale": 1.0, **params})
    return ActionManager({"a": cfg}, view), view


def test_the_first_action_moves_only_the_first_joint() -> None:
    """FR-03: joints are hip, knee, ankle; actuators run the other way round."""
    backend = FakeBackend(1)
    view = make_view(backend=backend)
    term = ActionTermCfg(func=actions.JointPositionAction, params={"joints": ALL, "scale": 1.0})
    manager = ActionManager({"a": term}, view)
    before = view.entity("robot").joint_pos.clone()
    manager.process(torch.tensor([[1.0, 0.0, 0.0]]))
    backend.step(1)

    moved = (view.entity("robot").joint_pos - before).abs() > 1e-6
    assert backend.control[0, 2] == torch.tensor(1.0) + 0.1  # hip_motor is the last actuator
    assert moved.tolist() == [[True, False, False]]
    assert manager.terms["a"].target_names == ("hip", "knee", "ankle")


def test_the_order_of_patterns_does_not_matter_unless_it_is_preserved() -> None:
    """FR-03."""
    joints = ("ankle", "hip")
    sorted_terms, _ = manager(actions.JointEffortAction, EntitySelector(joints=joints))
    kept, view = manager(actions.JointEffortAction, EntitySelector(joints=joints, preserve_order=True))
    kept.process(torch.tensor([[1.0, 2.0]] * 2))

    assert sorted_terms.terms["a"].target_names == ("hip", "ankle")
    assert kept.terms["a"].target_names == joints
    assert view.backend.control[0].tolist() == [1.0, 0.0, 2.0]


def test_a_position_target_is_default_plus_scale_times_action_less_the_encoder_bias() -> None:
    terms, view = manager(actions.JointPositionAction, EntitySelector(joints=("knee",)), scale=0.5)
    view.entity("robot").encoder_bias[:, 1] = 0.05
    terms.process(torch.full((2, 1), 2.0))

    torch.testing.assert_close(view.backend.control[:, 1], torch.full((2,), -0.2 + 1.0 - 0.05))


def test_a_relative_target_starts_from_the_present_position() -> None:
    terms, view = manager(actions.RelativeJointPositionAction, EntitySelector(joints=("knee",)))
    view.entity("robot").joint_pos[:, 1] = 0.7
    terms.process(torch.full((2, 1), 0.1))

    torch.testing.assert_close(view.backend.control[:, 1], torch.full((2,), 0.8))


@pytest.mark.parametrize("func", [actions.JointVelocityAction, actions.JointEffortAction])
def test_velocity_and_effort_are_scale_times_action_one_scale_a_joint(func: Any) -> None:
    terms, view = manager(func, scale=(1.0, 2.0, 3.0))
    terms.process(torch.ones(2, 3))

    assert view.backend.control[0].tolist() == [3.0, 2.0, 1.0]


def test_the_clip_comes_last() -> None:
    terms, view = manager(actions.JointEffortAction, scale=10.0, clip=(-1.0, 2.0))
    terms.process(torch.tensor([[1.0, -1.0, 0.1]] * 2))

    assert view.backend.control[0].tolist() == [1.0, -1.0, 2.0]


def test_bounds_are_those_of_every_joint_and_cut_nothing() -> None:
    terms, view = manager(actions.JointEffortAction, bounds=(-0.5, 2.0))
    terms.process(torch.full((2, 3), -7.0))

    assert terms.bounds == ((-0.5,) * 3, (2.0,) * 3)
    assert view.backend.control[0].tolist() == [-7.0] * 3
    assert manager(actions.JointPositionAction)[0].bounds == ((-1.0,) * 3, (1.0,) * 3)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"bounds": (1.0, -1.0)}, "bounds .* low is above high"),
        ({"bounds": (1.0, 1.0)}, "bounds .* nothing lies between"),
        ({"bounds": (0.0, float("inf"))}, "bounds .* two finite numbers"),
        ({"scale": (1.0, 2.0)}, "scale has 2 numbers for 3 joints"),
        ({"clip": (1.0, -1.0)}, "low is above high"),
        ({"scale": float("nan")}, "scale is nan"),
    ],
)
def test_impossible_parameters_are_refused(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=f"actions.a.*{match}"):
        manager(actions.JointEffortAction, **params)


def test_a_joint_without_an_actuator_is_refused() -> None:
    backend = FakeBackend(2)
    index = backend.index.entities["robot"]
    object.__setattr__(index, "actuator_joint", ("ankle", "knee", "knee"))

    for joint, count in (("hip", 0), ("knee", 2)):
        term = ActionTermCfg(
            func=actions.JointEffortAction, params={"joints": EntitySelector(joints=(joint,)), "scale": 1.0}
        )
        with pytest.raises(ConfigurationError, match=f"actions.a: joint '{joint}' has {count} actuators"):
            ActionManager({"a": term}, make_view(backend=backend))
