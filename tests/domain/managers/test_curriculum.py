"""When curricula run, and what is logged."""

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.curriculum import CurriculumManager, CurriculumTermCfg, targets
from domain.view import EnvView
from tests.support.small_env import make_view, mask


class Step:
    def __init__(self, env: EnvView) -> None:
        self._env = env
        self.initial = torch.tensor(-1.0)

    def __call__(self, rows: Tensor) -> Tensor:
        return self._env.step_count.float()


def test_a_value_is_logged_when_rows_reset_and_stays_otherwise() -> None:
    view = make_view()
    curricula = CurriculumManager({"step": CurriculumTermCfg(func=Step)}, view)
    assert curricula.values["step"] == -1.0

    view.step_count.fill_(4)
    curricula.compute(mask(0, 1))
    view.step_count.fill_(9)
    curricula.compute(mask(0, 0))

    assert curricula.values["step"] == 4.0
    assert curricula.state_dict()["step"] == 4.0


def test_a_function_is_refused_because_it_says_nothing_before_it_runs() -> None:
    def bare(env: EnvView) -> Tensor:
        return torch.zeros(())

    with pytest.raises(ConfigurationError, match="curricula.bare: a curriculum is a class with a property `initial`"):
        CurriculumManager({"bare": CurriculumTermCfg(func=bare)}, make_view())


def test_a_value_that_is_no_single_number_is_refused() -> None:
    class Wide:
        def __init__(self, env: EnvView) -> None:
            self.initial = torch.zeros(2)

    with pytest.raises(ConfigurationError, match="curricula.wide"):
        CurriculumManager({"wide": CurriculumTermCfg(func=Wide)}, make_view())


def test_targets_are_the_paths_that_terms_write() -> None:
    cfgs = {
        "a": CurriculumTermCfg(func=Step, params={"target": "rewards.one.weight"}),
        "b": CurriculumTermCfg(func=Step),
        "c": CurriculumTermCfg(func=Step, params={"targets": ("rewards.two.weight", "rewards.three.weight")}),
        "d": CurriculumTermCfg(func=Step, params={"target": None, "targets": None}),
    }

    assert targets(cfgs) == {"rewards.one.weight", "rewards.two.weight", "rewards.three.weight"}


class Writes(Step):
    def __init__(self, env: EnvView, *, target: str) -> None:
        super().__init__(env)


class Finds(Step):
    targets = ("rewards.two.weight", "rewards.one.weight")


def test_two_terms_that_write_one_parameter_are_refused() -> None:
    writes = CurriculumTermCfg(func=Writes, params={"target": "rewards.one.weight"})

    for other in (writes, CurriculumTermCfg(func=Finds)):
        with pytest.raises(ConfigurationError, match="curricula.b and curricula.a both write rewards.one.weight"):
            CurriculumManager({"a": writes, "b": other}, make_view())
