"""Where resets and pushes put a robot."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.entity import EntitySelector
from domain.errors import ConfigurationError
from domain.managers.event import EventManager, EventTermCfg
from domain.mdp import resets
from domain.view import EnvView
from tests.support.small_env import draw_block, make_view

ALL = EntitySelector()
HALF = math.sqrt(0.5)
MANY = 500


def reset(view: EnvView, rows: Tensor | None = None, *terms: tuple[Any, dict[str, Any]]) -> None:
    events = EventManager(
        {f"t{i}": EventTermCfg(func=func, mode="reset", params=params) for i, (func, params) in enumerate(terms)}, view
    )
    draw_block(view)
    rows = torch.ones(view.num_envs, dtype=torch.bool) if rows is None else rows
    view.writes.begin_step()
    with view.writes.transaction(rows, "reset"):
        view.writes.stage_reset()
        events.reset(rows)
    view.writes.commit()


def test_a_root_reset_adds_offsets_to_the_default_pose() -> None:
    view = make_view()
    pose = {"x": (1.0, 1.0), "z": (0.25, 0.25), "yaw": (math.pi / 2, math.pi / 2)}
    reset(view, None, (resets.ResetRootUniform, {"pose": pose, "velocity": {}}))

    torch.testing.assert_close(view.state.qpos[0, :7], torch.tensor([1.0, 0.0, 0.75, HALF, 0.0, 0.0, HALF]))
    assert not view.state.qvel.any()


def test_an_angular_velocity_is_drawn_in_the_world_and_stored_in_the_body_frame() -> None:
    view = make_view()
    params = {"pose": {"roll": (math.pi / 2, math.pi / 2)}, "velocity": {"z": (2.0, 2.0), "yaw": (3.0, 3.0)}}
    reset(view, None, (resets.ResetRootUniform, params))

    # Rolled a quarter turn, the body's y axis points up.
    torch.testing.assert_close(view.state.qvel[0, :6], torch.tensor([0.0, 0.0, 2.0, 0.0, 3.0, 0.0]))


def test_joints_are_offset_within_their_limits() -> None:
    view = make_view()
    params = {"position": (5.0, 5.0), "velocity": (0.5, 0.5), "joints": EntitySelector(joints=("hip", "ankle"))}
    reset(view, None, (resets.ResetJointsUniform, params))

    torch.testing.assert_close(view.state.qpos[0, 7:], torch.tensor([1.0, -0.2, 5.3]))
    assert view.state.qvel[0, 6:].tolist() == [0.5, 0.0, 0.5]


def test_two_joint_resets_keep_each_others_joints() -> None:
    view = make_view()
    terms = [
        (
            resets.ResetJointsUniform,
            {"position": (x, x), "velocity": (0.0, 0.0), "joints": EntitySelector(joints=(name,))},
        )
        for name, x in (("hip", 0.5), ("knee", -0.5))
    ]
    reset(view, None, *terms)

    torch.testing.assert_close(view.state.qpos[0, 7:], torch.tensor([0.6, -0.7, 0.3]))


def test_draws_spread_over_their_range_and_differ_from_row_to_row() -> None:
    view = make_view(MANY)
    reset(view, None, (resets.ResetRootUniform, {"pose": {"x": (-1.0, 3.0)}, "velocity": {}}))
    x = view.state.qpos[:, 0]

    torch.testing.assert_close(x.mean(), torch.tensor(1.0), atol=0.2, rtol=0)
    assert len(set(x.tolist())) > MANY - 5


def test_a_rows_start_does_not_depend_on_which_others_reset() -> None:
    """FR-08."""
    starts = []
    for rows in (torch.tensor([False, True]), torch.tensor([True, True])):
        view = make_view(2)
        reset(view, rows, (resets.ResetRootUniform, {"pose": {"x": (-1.0, 1.0)}, "velocity": {}}))
        starts.append(view.state.qpos[:, 0].clone())

    assert starts[0][1] == starts[1][1]
    assert starts[0][0] == 0.0


def test_a_push_adds_a_world_velocity_to_the_rows_that_are_due() -> None:
    view = make_view()
    push = {"x": (1.0, 1.0), "yaw": (0.5, 0.5)}
    events = EventManager({"push": EventTermCfg(func=resets.PushRoot, mode="step", params={"velocity": push})}, view)
    view.state.qvel[:, :6] = 0.25
    view.state.qpos[:, 3:7] = torch.tensor([HALF, HALF, 0.0, 0.0])
    draw_block(view)
    rows = torch.tensor([True, False])
    view.writes.begin_step()
    with view.writes.transaction(rows, "events"):
        events.compute(rows)
    view.writes.commit()

    torch.testing.assert_close(view.state.qvel[0, :6], torch.tensor([1.25, 0.25, 0.25, 0.25, 0.75, 0.25]))
    assert view.state.qvel[1, :6].tolist() == [0.0] * 6  # the engine's own row, which nobody wrote


def test_two_pushes_of_a_step_add_up() -> None:
    view = make_view()
    push = EventTermCfg(func=resets.PushRoot, mode="step", params={"velocity": {"x": (1.0, 1.0)}})
    events = EventManager({"a": push, "b": push}, view)
    draw_block(view)
    rows = torch.ones(2, dtype=torch.bool)
    view.writes.begin_step()
    with view.writes.transaction(rows, "events"):
        events.compute(rows)
    view.writes.commit()

    assert view.state.qvel[:, 0].tolist() == [2.0, 2.0]


def test_the_encoder_bias_of_chosen_joints_is_redrawn_for_reset_rows() -> None:
    view = make_view()
    bias = view.entity("robot").encoder_bias
    params = {"bias": (0.05, 0.05), "joints": EntitySelector(joints=("knee",))}
    reset(view, torch.tensor([True, False]), (resets.RandomizeEncoderBias, params))

    torch.testing.assert_close(bias, torch.tensor([[0.0, 0.05, 0.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("func", "params", "match"),
    [
        (resets.ResetRootUniform, {"pose": {"x": (1.0, 0.0)}, "velocity": {}}, r"pose.x is .*low is above high"),
        (resets.ResetRootUniform, {"pose": {"q": (0.0, 1.0)}, "velocity": {}}, "unknown axis 'q'"),
        (resets.ResetRootUniform, {"pose": {}, "velocity": {}, "entity": "cat"}, "unknown entity 'cat'"),
        (resets.RandomizeEncoderBias, {"bias": (1.0, -1.0), "joints": ALL}, "low is above high"),
        (resets.PushRoot, {"velocity": {}}, "cannot run in mode reset: use interval or step"),
    ],
)
def test_impossible_resets_are_refused(func: Any, params: dict[str, Any], match: str) -> None:
    """FR-44."""
    with pytest.raises(ConfigurationError, match=f"events.t0.*{match}"):
        reset(make_view(), None, (func, params))
