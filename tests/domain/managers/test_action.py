"""Splitting and delaying actions, and their histories."""

from typing import Any

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.action import ActionManager, ActionTerm, ActionTermCfg
from domain.managers.buffers import DelayCfg
from domain.view import EnvView
from tests.support.small_env import draw_block, make_view, mask


class Columns(ActionTerm):
    """Writes the action to the control columns from ``first`` on."""

    def __init__(self, env: EnvView, *, first: int, dim: int = 1, names: bool = False) -> None:
        self._control = env.backend.control
        self._first, self.dim = first, dim
        self.target_names = tuple(f"joint{i}" for i in range(dim)) if names else ()

    def apply(self, action: Tensor) -> None:
        self._control[:, self._first : self._first + self.dim] = action


def manager(delay: DelayCfg | None = None) -> tuple[ActionManager, EnvView]:
    view = make_view()
    terms = {
        "two": ActionTermCfg(func=Columns, params={"first": 1, "dim": 2}, delay=delay),
        "one": ActionTermCfg(func=Columns, params={"first": 0}),
    }
    actions = ActionManager(terms, view)
    draw_block(view)
    return actions, view


def test_the_action_is_split_in_declared_order() -> None:
    actions, view = manager()
    actions.process(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))

    assert actions.dim == 3
    assert view.backend.control.tolist() == [[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]]


def test_the_last_three_actions_are_kept() -> None:
    actions, view = manager()
    for number in (1.0, 2.0, 3.0):
        actions.process(torch.full((2, 3), number))

    histories = (view.action, view.previous_action, view.action_before_previous)
    assert [float(history[0, 0]) for history in histories] == [3.0, 2.0, 1.0]


def test_a_reset_zeroes_the_histories_of_its_rows() -> None:
    actions, view = manager()
    for number in (1.0, 2.0, 3.0):
        actions.process(torch.full((2, 3), number))

    actions.reset(mask(1, 0))

    assert view.action[:, 0].tolist() == [0.0, 3.0]
    assert view.previous_action[:, 0].tolist() == [0.0, 2.0]
    assert view.action_before_previous[:, 0].tolist() == [0.0, 1.0]


def test_a_delayed_term_applies_0_until_its_first_action_arrives() -> None:
    actions, view = manager(DelayCfg(min_lag=2, max_lag=2))
    actions.reset(mask(1, 1))
    applied = []
    for number in (1.0, 2.0, 3.0, 4.0):
        actions.process(torch.full((2, 3), number))
        applied.append(float(view.backend.control[0, 1]))

    assert applied == [0.0, 0.0, 1.0, 2.0]
    assert view.backend.control[0, 0] == 4.0


def test_a_reset_row_waits_anew_while_others_go_on() -> None:
    actions, view = manager(DelayCfg(min_lag=1, max_lag=1))
    actions.reset(mask(1, 1))
    actions.process(torch.full((2, 3), 1.0))
    actions.reset(mask(1, 0))
    actions.process(torch.full((2, 3), 2.0))

    assert view.backend.control[:, 1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ([[0.0] * 3] * 2, "not list"),
        (torch.zeros(2, 2), r"shape \(2, 2\)"),
        (torch.zeros(3), r"shape \(3,\)"),
        (torch.zeros(2, 3, dtype=torch.float64), "float64"),
        (torch.zeros(2, 3, device="meta"), "on meta"),
    ],
)
def test_a_wrong_action_is_refused_and_changes_nothing(action: Any, match: str) -> None:
    actions, view = manager()
    actions.process(torch.ones(2, 3))

    with pytest.raises(ConfigurationError, match=match):
        actions.check(action)
    assert view.action.tolist() == [[1.0] * 3] * 2
    assert view.previous_action.tolist() == [[0.0] * 3] * 2


def test_the_callers_tensor_is_copied() -> None:
    actions, view = manager()
    mine = torch.ones(2, 3)
    actions.process(mine)
    mine.fill_(9.0)

    assert view.action[0, 0] == 1.0


def test_a_term_that_is_no_action_term_is_refused() -> None:
    def function(env: EnvView) -> Tensor:
        return env.action

    with pytest.raises(ConfigurationError, match="actions.bad: .* is not an action term"):
        ActionManager({"bad": ActionTermCfg(func=function)}, make_view())


def test_two_terms_that_drive_one_target_are_refused() -> None:
    params = {"first": 0, "names": True}
    terms = {name: ActionTermCfg(func=Columns, params=params) for name in ("a", "b")}

    with pytest.raises(ConfigurationError, match="actions.b and actions.a both drive joint0"):
        ActionManager(terms, make_view())


class Ranged(Columns):
    """Two columns with a range of their own."""

    def __init__(self, env: EnvView, *, low: Any, high: Any) -> None:
        super().__init__(env, first=1, dim=2)
        self.low, self.high = low, high


def test_the_range_of_each_column_is_known_and_minus_one_to_one_by_default() -> None:
    terms = {
        "one": ActionTermCfg(func=Columns, params={"first": 0}),
        "two": ActionTermCfg(func=Ranged, params={"low": (-2.0, 0.5), "high": 3}),
    }

    actions = ActionManager(terms, make_view())

    assert actions.bounds == ((-1.0, -2.0, 0.5), (1.0, 3.0, 3.0))


def test_an_action_outside_the_range_is_taken_as_it_is() -> None:
    actions, view = manager()
    actions.process(torch.full((2, 3), 7.0))

    assert view.backend.control.tolist() == [[7.0] * 3] * 2


@pytest.mark.parametrize(
    ("low", "high", "match"),
    [
        ((-1.0,), 1.0, "has 1 lowest and 2 highest actions for 2 columns: give 1 or all"),
        (1.0, (2.0, 1.0), "column 1 goes from 1.0 to 1.0: give finite bounds, low below high"),
        (float("-inf"), 1.0, "column 0 goes from -inf to 1.0"),
        (-1.0, float("nan"), "column 0 goes from -1.0 to nan"),
    ],
)
def test_an_impossible_range_is_refused(low: Any, high: Any, match: str) -> None:
    with pytest.raises(ConfigurationError, match=f"actions.bad.*{match}"):
        ActionManager({"bad": ActionTermCfg(func=Ranged, params={"low": low, "high": high})}, make_view())


def test_no_terms_take_an_empty_action() -> None:
    view = make_view()
    actions = ActionManager({}, view)
    actions.process(torch.zeros(2, 0))

    assert actions.dim == 0
    assert actions.bounds == ((), ())


def test_histories_and_delay_lines_are_state() -> None:
    actions, _ = manager(DelayCfg(max_lag=1))

    assert {"action", "previous_action", "action_before_previous", "two/delay/lag", "two/delay/history/slots"} <= set(
        actions.state_dict()
    )
