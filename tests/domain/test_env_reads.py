"""One packed read a step, and one more only where something was written."""

import pytest

from domain.managers.event import EventTermCfg
from domain.mdp import resets
from tests.support.fake_backend import FakeBackend
from tests.support.small_env import ends, fails_at, make_env, mask, step

PUSH = {"velocity": {"x": (1.0, 1.0)}}


def counts(backend: FakeBackend) -> tuple[int, int, int]:
    """Return and forget steps, commits and reads."""
    seen = (backend.steps, backend.commits, backend.reads)
    backend.steps = backend.commits = backend.reads = 0
    return seen


@pytest.mark.parametrize("device_like", [False, True])
def test_reads_of_a_plain_step_a_reset_and_a_push(device_like: bool) -> None:
    backend = FakeBackend(2, device_like=device_like)
    env = make_env(
        backend=backend,
        terminations={"fall": ends(fails_at, row=0, step=2)},
        events={
            "push": EventTermCfg(func=resets.PushRoot, mode="interval", interval_s=(0.06, 0.06), params=PUSH),
            "root": EventTermCfg(
                func=resets.ResetRootUniform, mode="reset", params={"pose": {"x": (0.0, 1.0)}, "velocity": {}}
            ),
        },
    )
    assert counts(backend) == (0, 1, 1)  # the first reset

    plain, with_reset, with_push, after = (step(env) and counts(backend) for _ in range(4))

    assert plain == (1, 0, 1)
    assert with_reset == (1, 1, 2)
    assert with_push == (1, 1, 2)  # row 1 alone: row 0 began anew a step ago
    assert after == (1, 0, 1)


def test_a_reset_and_a_push_in_one_step_share_the_commit() -> None:
    backend = FakeBackend(2)
    env = make_env(
        backend=backend,
        terminations={"fall": ends(fails_at, row=0, step=2)},
        events={"push": EventTermCfg(func=resets.PushRoot, mode="interval", interval_s=(0.04, 0.04), params=PUSH)},
    )
    step(env)
    counts(backend)
    step(env)

    assert counts(backend) == (1, 1, 2)


def test_an_explicit_reset_is_one_commit_and_one_read() -> None:
    backend = FakeBackend(2)
    env = make_env(backend=backend)
    counts(backend)

    env.reset(mask(0, 1))
    assert counts(backend) == (0, 1, 1)
    env.reset(mask(0, 0))
    assert counts(backend) == (0, 0, 0)
