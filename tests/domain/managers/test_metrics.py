"""Metrics over an episode."""

from typing import Any

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.metrics import MetricsManager, MetricsTermCfg
from domain.view import EnvView
from tests.support.small_env import make_view, mask

KINDS = ("mean", "sum", "max", "last")


def reading(env: EnvView) -> Tensor:
    return env.sensor("gyro")[:, 0].clone()


def run(values: list[float]) -> tuple[MetricsManager, EnvView]:
    view = make_view()
    metrics = MetricsManager({kind: MetricsTermCfg(func=reading, reduce=kind) for kind in KINDS}, view)  # type: ignore[arg-type]
    for value in values:
        view.sensor("gyro").fill_(value)
        metrics.compute()
    return metrics, view


def test_an_episode_becomes_its_mean_sum_maximum_and_last_value() -> None:
    metrics, _ = run([-3.0, -1.0, -2.0])

    assert metrics.episode_values()[0].tolist() == [-2.0, -6.0, -1.0, -2.0]


def test_a_value_that_is_not_finite_is_skipped_and_flagged() -> None:
    metrics, _ = run([1.0, 3.0, torch.nan])

    assert metrics.episode_values()[0].tolist() == [2.0, 4.0, 3.0, 3.0]
    assert metrics.broken.all()


def test_a_reset_starts_its_rows_anew() -> None:
    metrics, view = run([5.0, 5.0])
    metrics.reset(mask(1, 0))
    view.sensor("gyro").fill_(-1.0)
    metrics.compute()

    assert metrics.episode_values()[0].tolist() == [-1.0, -1.0, -1.0, -1.0]
    assert metrics.episode_values()[1, 1] == 9.0


def test_no_metrics_have_no_columns() -> None:
    view = make_view()
    metrics = MetricsManager({}, view)
    metrics.compute()

    assert metrics.episode_values().shape == (2, 0)


def test_names_of_metrics_cannot_hide_state() -> None:
    view = make_view()
    metrics = MetricsManager({name: MetricsTermCfg(func=reading) for name in ("values", "counts", "steps")}, view)

    assert {name: value.shape for name, value in metrics.state_dict().items()} == {"values": (2, 3), "counts": (2, 3)}


def test_an_unknown_reduction_is_refused() -> None:
    reduce: Any = "median"

    with pytest.raises(ConfigurationError, match="metrics.odd.reduce: unknown reduction 'median'"):
        MetricsManager({"odd": MetricsTermCfg(func=reading, reduce=reduce)}, make_view())


def test_a_term_of_another_shape_is_refused() -> None:
    """FR-41."""

    def column(env: EnvView) -> Tensor:
        return torch.zeros(env.num_envs, 1)

    with pytest.raises(ConfigurationError, match="metrics.odd returned"):
        MetricsManager({"odd": MetricsTermCfg(func=column)}, make_view())
