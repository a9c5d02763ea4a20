"""Failures and time limits."""

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.termination import TerminationManager, TerminationTermCfg
from domain.view import EnvView
from tests.support.small_env import make_view, mask


def first(env: EnvView) -> Tensor:
    return torch.arange(env.num_envs) == 0


def both(env: EnvView) -> Tensor:
    return torch.ones(env.num_envs, dtype=torch.bool)


def test_failures_and_time_outs_are_kept_apart() -> None:
    view = make_view()
    terms = {"fell": TerminationTermCfg(func=first), "limit": TerminationTermCfg(func=both, time_out=True)}
    terminations = TerminationManager(terms, view)

    terminations.compute()

    assert view.terminated.tolist() == [True, False]
    assert view.truncated.tolist() == [True, True]
    assert terminations.fired.tolist() == [[True, True], [False, True]]


def test_any_of_several_failures_ends_a_row() -> None:
    view = make_view()
    terms = {"a": TerminationTermCfg(func=first), "b": TerminationTermCfg(func=both)}
    TerminationManager(terms, view).compute()

    assert view.terminated.all()
    assert not view.truncated.any()


def test_without_terms_the_flags_of_the_step_before_are_cleared() -> None:
    view = make_view()
    terminations = TerminationManager({}, view)
    view.terminated.fill_(True)

    terminations.compute()

    assert not view.terminated.any()


def test_a_reset_clears_the_flags_of_its_rows_but_not_what_fired() -> None:
    view = make_view()
    terminations = TerminationManager({"b": TerminationTermCfg(func=both)}, view)
    terminations.compute()

    terminations.reset(mask(1, 0))

    assert view.terminated.tolist() == [False, True]
    assert terminations.fired.all()


def test_a_term_that_is_not_bool_is_refused_by_name() -> None:
    """FR-41."""

    def number(env: EnvView) -> Tensor:
        return torch.zeros(env.num_envs)

    with pytest.raises(ConfigurationError, match=r"terminations.odd returned torch.float32 .*expected torch.bool"):
        TerminationManager({"odd": TerminationTermCfg(func=number)}, make_view())
