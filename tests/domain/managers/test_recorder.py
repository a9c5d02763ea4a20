"""Recorders see the moments of a step in order."""

from collections.abc import Mapping

import pytest
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.recorder import RecorderManager, RecorderTerm, RecorderTermCfg
from domain.managers.state import Stateful
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import ends, fails_at, make_env, make_view, mask, step


class Diary(Stateful, RecorderTerm):
    """Writes down what it is told; ``pages`` is one list for all instances of a test."""

    pages: list[tuple[str, list[bool], float]]

    def __init__(self, env: EnvView) -> None:
        super().__init__()
        self.env = env
        self.keep_rows("seen", env.num_envs, device=env.device)

    def pre_reset(self, rows: Tensor) -> None:
        self.pages.append(("pre", rows.tolist(), float(self.env.episode_length[0])))

    def post_reset(self, rows: Tensor) -> None:
        self.pages.append(("post", rows.tolist(), float(self.env.episode_length[0])))

    def post_step(self, observations: Mapping[str, Tensor], reward: Tensor, done: Tensor) -> None:
        self.pages.append(("step", done.tolist(), float(observations["actor"][0, 0])))

    def close(self) -> None:
        self.pages.append(("close", [], 0.0))


@pytest.fixture
def pages() -> list[tuple[str, list[bool], float]]:
    Diary.pages = []
    return Diary.pages


def test_the_first_reset_has_nothing_before_it(pages: list[object]) -> None:
    make_env(recorders={"diary": RecorderTermCfg(func=Diary)})

    assert pages == [("post", [True, True], 0.0)]


def test_a_step_with_a_reset_tells_before_after_and_the_step(pages: list[object]) -> None:
    env = make_env(
        recorders={"diary": RecorderTermCfg(func=Diary)},
        terminations={"fall": ends(fails_at, row=0, step=2)},
    )
    pages.clear()
    step(env, 2)

    assert pages == [
        ("step", [False, False], 1.0),
        ("pre", [True, False], 2.0),
        ("post", [True, False], 0.0),
        ("step", [True, False], 0.0),
    ]


def test_an_explicit_reset_tells_before_and_after_unless_it_is_empty(pages: list[object]) -> None:
    env = make_env(recorders={"diary": RecorderTermCfg(func=Diary)})
    step(env)
    pages.clear()

    env.reset(mask(0, 0))
    env.reset(mask(0, 1))

    assert [page[:2] for page in pages] == [("pre", [False, True]), ("post", [False, True])]  # type: ignore[index]


def test_closing_the_environment_closes_recorders_and_then_the_backend(pages: list[object]) -> None:
    backend = FakeBackend(2)
    make_env(backend=backend, recorders={"diary": RecorderTermCfg(func=Diary)}).close()

    assert pages[-1] == ("close", [], 0.0)
    assert backend.is_closed


def test_the_backend_is_closed_even_if_a_recorder_fails() -> None:
    class Fails(RecorderTerm):
        def close(self) -> None:
            raise OSError("disk full")

    backend = FakeBackend(2)
    env = make_env(backend=backend, recorders={"bad": RecorderTermCfg(func=Fails)})

    with pytest.raises(OSError, match="disk full"):
        env.close()
    assert backend.is_closed


def test_a_recorders_state_is_saved(pages: list[object]) -> None:
    recorders = RecorderManager({"diary": RecorderTermCfg(func=Diary)}, make_view())

    assert set(recorders.state_dict()) == {"diary/seen"}


def test_a_term_that_is_no_recorder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="recorders.bad: .* is not a recorder term"):
        RecorderManager({"bad": RecorderTermCfg(func=Stateful.__init__)}, make_view())
