"""How a declared term becomes a callable, and what is refused on the way."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from domain.entity import EntitySelection, EntitySelector
from domain.errors import ConfigurationError
from domain.managers.terms import (
    Bounds,
    Finite,
    FixedRange,
    Fraction,
    Ordered,
    PoseRanges,
    Positive,
    Range,
    RangeTable,
    TermCfg,
    bind_term,
    check_params,
    probe,
)
from domain.view import EnvView
from tests.support.small_env import make_view

ALL = EntitySelector()


def term(  # noqa: PLR0913
    env: EnvView,
    *,
    share: Fraction,
    width: Positive | None = None,
    span: Range = (0.0, 1.0),  # type: ignore[assignment]
    pose: PoseRanges = {},  # type: ignore[assignment]  # noqa: B006
    kind: Literal["add", "scale"] = "add",
    name: str = "gyro",
    flag: bool = False,
    free: Finite | None = None,
    mode: Literal["a", "b"] | None = None,
) -> Tensor:
    return share.expand(env.num_envs)


def chosen(env: EnvView, *, joints: EntitySelection) -> Tensor:
    return joints.entity.joint_pos[:, joints.joint_ids]


def check(**params: object) -> None:
    check_params(term, {"share": 0.5, **params}, "rewards.one")


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"shar": 0.5}, "rewards.one.params: unknown parameter 'shar': did you mean 'share'"),
        ({"share": 1.5}, r"rewards.one.params.share is 1.5, outside \[0.0, 1.0\]"),
        ({"share": -0.1}, "share is -0.1"),
        ({"share": math.nan}, "share is nan"),
        ({"share": None}, "share is None: give a number"),
        ({"share": "0.5"}, "share is '0.5': give a number"),
        ({"share": True}, "share is True: give a number"),
        ({"width": 0.0}, r"width is 0.0, outside \(0.0, inf\]"),
        ({"width": math.inf}, "width is inf"),
        ({"span": (1.0, -1.0)}, "low is above high, swap them"),
        ({"span": (math.nan, 1.0)}, "give two finite numbers"),
        ({"span": (0.0, 1.0, 2.0)}, "give two finite numbers"),
        ({"span": ((0.0, 1.0),)}, "give two finite numbers"),
        ({"span": 1.0}, "give two finite numbers"),
        ({"pose": {"rol": (0.0, 1.0)}}, "unknown axis 'rol': did you mean 'roll'"),
        ({"pose": {"x": (1.0, 0.0)}}, r"pose.x is \(1.0, 0.0\): low is above high"),
        ({"pose": (0.0, 1.0)}, "give a mapping of x, y, z, roll, pitch, yaw"),
        ({"kind": "mul"}, "unknown choice 'mul'"),
        ({"kind": object}, "unknown choice"),
        ({"mode": "c"}, "unknown choice 'c'"),
        ({"name": 3}, "name is 3: give a value of type str"),
        ({"flag": "false"}, "flag is 'false': give a value of type bool"),
        ({"free": math.inf}, "free is inf"),
    ],
)
def test_an_impossible_parameter_is_refused_with_its_path(params: Mapping[str, object], match: str) -> None:
    """FR-44, FR-48: refused at load, never unchanged in silence."""
    with pytest.raises(ConfigurationError, match=match):
        check(**params)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(ConfigurationError, match="rewards.one.params.share is missing: term needs it"):
        check_params(term, {}, "rewards.one")


def test_good_parameters_pass() -> None:
    good = {"width": 2.0, "span": (1.0, 1.0), "pose": {"x": (0.0, 0.0)}, "kind": "scale", "flag": True, "free": -3}
    check(**good, mode=None)
    for name, bad in {"width": 0.0, "span": (2.0, 1.0), "kind": "other", "flag": 1}.items():
        with pytest.raises(ConfigurationError, match=name):
            check(**{**good, "mode": None, name: bad})


@pytest.mark.parametrize(
    ("joints", "match"),
    [
        ("hip", "joints is 'hip': give an EntitySelector"),
        (EntitySelector(bodies=("trunk",)), "selects bodies, but only its joints count"),
        (EntitySelector(joints=("toe",)), "rewards.one: unknown joint 'toe'"),
        (EntitySelector(entity="dog"), "rewards.one: unknown entity 'dog'"),
    ],
)
def test_a_selector_that_would_not_be_used_is_refused(joints: object, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        bind_term(TermCfg(func=chosen, params={"joints": joints}), make_view(), "rewards.one")


def test_a_bound_term_gets_tensors_selections_and_fixed_values() -> None:
    seen: dict[str, Any] = {}

    def watch(env: EnvView, *, joints: EntitySelection, width: Positive, pose: PoseRanges, name: str) -> None:
        seen.update(joints=joints, width=width, pose=pose, name=name)

    params = {"joints": ALL, "width": 2, "pose": {"y": (-1.0, 1.0)}, "name": "gyro"}
    bind_term(TermCfg(func=watch, params=params), make_view(), "rewards.one")()

    assert seen["joints"].joint_names == ("hip", "knee", "ankle")
    assert seen["width"].dtype == torch.float32
    assert seen["pose"].tolist() == [[0, -1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
    assert seen["name"] == "gyro"


def test_numbers_are_published_as_run_time_parameters_under_their_path() -> None:
    view = make_view()
    bound = bind_term(TermCfg(func=term, params={"share": 0.5}), view, "rewards.one")

    view.tunable("rewards.one.params.share").fill_(0.25)

    assert bound().tolist() == [0.25, 0.25]


def test_an_error_of_a_class_carries_the_path() -> None:
    class Refuses:
        def __init__(self, env: EnvView) -> None:
            raise ConfigurationError("no foot")

    with pytest.raises(ConfigurationError, match="rewards.one: no foot"):
        bind_term(TermCfg(func=Refuses), make_view(), "rewards.one")


def test_any_other_error_of_a_term_is_noted_with_the_path() -> None:
    def fails() -> Tensor:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch") as caught:
        probe(fails, "rewards.one", (2,), torch.float32, make_view())
    assert caught.value.__notes__ == ["in rewards.one"]


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2, 1),
        torch.zeros(()),
        torch.zeros(3),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, device="meta"),
        1.0,
        None,
    ],
)
def test_a_wrong_shape_type_or_device_is_refused_by_name(value: Any) -> None:
    """FR-41."""
    with pytest.raises(ConfigurationError, match="rewards.one returned"):
        probe(lambda: value, "rewards.one", (2,), torch.float32, make_view())


def test_none_in_a_shape_stands_for_any_size() -> None:
    assert probe(lambda: torch.zeros(2, 5), "o", (2, None), torch.float32, make_view()).shape == (2, 5)


def test_checks_stand_alone() -> None:
    Bounds(0.0).check((0.0, 3.0), "x")
    Ordered().check([1, 1], "x")
    RangeTable(("x",)).check({}, "x")
    with pytest.raises(ConfigurationError, match="x is -1.0, outside"):
        Bounds(0.0).check((0.0, -1.0), "x")
    with pytest.raises(ConfigurationError, match="low is above high"):
        Ordered().check([2, 1], "x")
    with pytest.raises(ConfigurationError, match="unknown axis 'y'"):
        RangeTable(("x",)).check({"y": (0, 1)}, "x")


def bounded(env: EnvView, *, bounds: FixedRange = (-1.0, 1.0)) -> tuple[float, float]:
    return bounds


def test_a_fixed_range_stays_a_pair_of_numbers() -> None:
    view = make_view()

    assert bind_term(TermCfg(func=bounded), view, "actions.a")() == (-1.0, 1.0)
    assert bind_term(TermCfg(func=bounded, params={"bounds": (-2.0, 0.5)}), view, "actions.a")() == (-2.0, 0.5)


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ((1.0, -1.0), "low is above high"),
        ((1.0, 1.0), "nothing lies between, give a high above low"),
        ((1.0,), "give two finite numbers"),
        ((0.0, math.inf), "give two finite numbers"),
        ("wide", "give a number"),
    ],
)
def test_a_fixed_range_is_checked_without_an_environment(bounds: object, match: str) -> None:
    with pytest.raises(ConfigurationError, match=f"actions.a.params.bounds .*{match}"):
        check_params(bounded, {"bounds": bounds}, "actions.a")
