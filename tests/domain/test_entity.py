"""Entities and the selection of their parts."""

import dataclasses

import pytest
import torch

from domain.entity import Entity, EntitySelection, EntitySelector, match_names
from domain.errors import ConfigurationError
from tests.support.fake_backend import DEFAULT_JOINT_POS, FakeBackend
from tests.support.small_env import make_view

NAMES = ("hip", "knee", "ankle")


def select(**chosen: object) -> EntitySelection:
    view = make_view()
    return EntitySelection(dataclasses.replace(EntitySelector(), **chosen), view.entity("robot"))  # type: ignore[arg-type]


def test_names_come_in_kinematic_order_whatever_the_order_of_the_patterns() -> None:
    """FR-03."""
    assert match_names(("ankle", "hip"), NAMES, "joint") == [0, 2]


def test_preserve_order_keeps_the_order_of_the_patterns() -> None:
    assert match_names(("ankle", "hip"), NAMES, "joint", preserve_order=True) == [2, 0]


def test_a_pattern_matches_whole_names_only() -> None:
    assert match_names((".*nk.*",), NAMES, "joint") == [2]
    with pytest.raises(ConfigurationError, match="unknown joint 'nk'"):
        match_names(("nk",), NAMES, "joint")


def test_a_pattern_without_a_match_suggests_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'knee'"):
        match_names(("kne",), NAMES, "joint")


def test_two_patterns_on_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="joint 'hip' is matched by both '.*' and 'hip'"):
        match_names((".*", "hip"), NAMES, "joint")


def test_an_empty_list_of_patterns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no joint is selected"):
        match_names((), NAMES, "joint")


def test_a_broken_regular_expression_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"joint pattern '\(' is no regular expression"):
        match_names(("(",), NAMES, "joint")


@pytest.mark.parametrize("joints", [None, (".*",), NAMES])
def test_a_full_selection_is_a_slice(joints: tuple[str, ...] | None) -> None:
    assert select(joints=joints).joint_ids == slice(None)


def test_a_partial_or_reordered_selection_is_a_tensor_of_ids() -> None:
    partial, turned = select(joints=("knee",)), select(joints=("ankle", "knee", "hip"), preserve_order=True)

    assert isinstance(partial.joint_ids, torch.Tensor)
    assert partial.joint_ids.tolist() == [1]
    assert isinstance(turned.joint_ids, torch.Tensor)
    assert turned.joint_ids.tolist() == [2, 1, 0]
    assert turned.joint_names == ("ankle", "knee", "hip")


def test_other_parts_are_numbered_in_the_whole_model() -> None:
    chosen = select(bodies=("trunk",), geoms=("foot_ball",), actuators=("hip_motor",))

    assert chosen.body_ids.tolist() == [1]  # the world is 0
    assert chosen.geom_ids.tolist() == [2]  # the floor is 0
    assert chosen.actuator_ids.tolist() == [2]


def test_an_entity_shows_its_part_of_the_state_without_copies() -> None:
    backend = FakeBackend(2)
    robot = Entity(backend.index.entities["robot"], backend.index, backend.state)
    backend.state.qpos[:] = torch.arange(10.0)
    backend.state.qvel[:] = torch.arange(9.0)

    assert robot.root_pos[0].tolist() == [0, 1, 2]
    assert robot.root_quat[0].tolist() == [3, 4, 5, 6]
    assert robot.joint_pos[1].tolist() == [7, 8, 9]
    assert robot.root_lin_vel[0].tolist() == [0, 1, 2]
    assert robot.root_ang_vel[0].tolist() == [3, 4, 5]
    assert robot.joint_vel[1].tolist() == [6, 7, 8]
    torch.testing.assert_close(robot.default_joint_pos, torch.tensor([DEFAULT_JOINT_POS]))


def test_a_fixed_base_has_no_root_and_says_who_asked() -> None:
    backend = FakeBackend(2)
    fixed = dataclasses.replace(backend.index.entities["robot"], root_qpos_adr=None, root_dof_adr=None)
    robot = Entity(fixed, backend.index, backend.state)

    assert not robot.is_floating
    with pytest.raises(ConfigurationError, match="a push needs a free base, and entity 'robot' has none"):
        robot.require_floating("a push")
