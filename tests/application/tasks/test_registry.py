"""Every declared task, on the real engine."""

import gc
import os

import pytest
import torch

from application.tasks.registry import TASKS
from domain.env import ManagerBasedRlEnv
from tests.support.tasks import make_env


def _roll(env: ManagerBasedRlEnv, steps: int) -> torch.Tensor:
    """Step with random actions and return everything seen, flattened: (steps, values)."""
    generator = torch.Generator().manual_seed(7)
    env.reset()
    seen = []
    for _ in range(steps):
        result = env.step(torch.randn(env.num_envs, env.actions.dim, generator=generator))
        tensors = [*result.observations.values(), *result.final_observations.values(), result.reward.unsqueeze(1)]
        seen.append(
            torch.cat([*tensors, result.terminated.unsqueeze(1), result.truncated.unsqueeze(1)], dim=1).flatten()
        )
    return torch.stack(seen)


@pytest.mark.parametrize("task", TASKS)
def test_names_agree_and_algorithms_build(task: str) -> None:
    assert TASKS[task].name == task
    for algo in TASKS[task].algorithms:
        assert TASKS[task].build(algo).name == task


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to compare one thread with two")
@pytest.mark.parametrize("task", TASKS)
def test_a_thousand_random_steps_are_finite_and_the_first_300_the_same_for_one_and_two_threads(task: str) -> None:
    """By then rows of each task have ended and begun anew; what comes later is more of that."""
    allowed = sorted(os.sched_getaffinity(0))
    cpus = allowed[:2]
    try:
        one = _roll(make_env(task, 8, cpu_ids=cpus[:1]), 1000)
        os.sched_setaffinity(0, cpus)
        two = _roll(make_env(task, 8, cpu_ids=cpus), 300)
    finally:
        os.sched_setaffinity(0, allowed)

    assert bool(torch.isfinite(one).all())
    assert torch.equal(one[:300], two)
    assert bool(two.view(300, 8, -1)[:-1, :, -2:].any()), "no row has ended"


@pytest.mark.parametrize("task", TASKS)
def test_another_seed_gives_other_starts(task: str) -> None:
    first, second = make_env(task, 8, seed=1).reset(), make_env(task, 8, seed=2).reset()

    assert not torch.equal(first["actor"], second["actor"])


@pytest.mark.parametrize("task", TASKS)
def test_steps_leave_no_tensors_behind(task: str) -> None:
    env = make_env(task, 4)
    _roll(env, 20)

    def live() -> int:
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    before = live()
    _roll(env, 200)

    assert live() <= before


@pytest.mark.parametrize("task", TASKS)
def test_saved_state_continues_bit_for_bit_in_a_fresh_environment(task: str) -> None:
    env, other = make_env(task, 8, seed=1), make_env(task, 8, seed=5)
    _roll(env, 30)
    state = env.state_dict()
    action = torch.full((8, env.actions.dim), 0.3)

    other.load_state_dict(state)

    for _ in range(50):
        ours, theirs = env.step(action), other.step(action)
        assert torch.equal(ours.reward, theirs.reward)
        for group in ours.observations:
            assert torch.equal(ours.observations[group], theirs.observations[group])
