"""Off-policy owners against the published tables, and first values where nothing is published."""

import dataclasses

import pytest

from application.config_values import from_plain, to_plain
from application.settings import PpoSettings
from application.tasks.off_policy_owners import OWNERS
from application.tasks.registry import TASKS
from application.tasks.task import OffPolicySettings
from domain.learning.config import FlashSacCfg, OffPolicyCfg, SacCfg, Td3Cfg

# Environments, iterations, save interval, batch, updates, rows reused (updates * batch / environments),
# rows kept, rows at the start.
RUNS = {
    ("g1_walk", "sac"): (2048, 5_000, 1_000, 8192, 8, 32, 1_048_576, 20_480),
    ("g1_motion", "sac"): (2048, 25_000, 1_000, 8192, 4, 16, 1_048_576, 8_192),
    ("g1_walk", "flashsac"): (4096, 5_000, 1_000, 2048, 8, 4, 1_048_576, 200_704),
    ("g1_motion", "flashsac"): (2048, 25_000, 1_000, 2048, 4, 4, 1_048_576, 200_704),
    ("g1_walk", "td3"): (4096, 100_000, 500, 8192, 4, 8, 4_096_000, 8_192),
}
OWN_RUNS = {
    ("go2_flat", "sac"): (1024, 3_000, 1_000, 8192, 8, 64, 1_048_576, 10_240),
    # Published with 5,000 iterations, and with 4,000 of 2 updates.
    ("go2_flat", "td3"): (1024, 3_000, 1_000, 8192, 8, 64, 1_048_576, 10_240),
    ("go2_flat", "flashsac"): (1024, 3_000, 1_000, 2048, 8, 16, 4_194_304, 51_200),
    ("cartpole_balance", "sac"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 1_280),
    ("cartpole_balance", "td3"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 1_280),
    ("cartpole_balance", "flashsac"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 6_400),
    ("cartpole_swingup", "sac"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 1_280),
    ("cartpole_swingup", "td3"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 1_280),
    ("cartpole_swingup", "flashsac"): (128, 4_000, 1_000, 1024, 4, 32, 524_288, 6_400),
}
"""Fixed by sweeps."""
# Policy frequency, gamma, tau, atoms, ends of the returns, clip of the gradient's norm.
MATHS = {
    ("g1_walk", "sac"): (4, 0.97, 0.125, 101, -20.0, 20.0, 0.0),
    ("g1_motion", "sac"): (2, 0.99, 0.05, 501, -20.0, 20.0, 10.0),
    ("g1_walk", "flashsac"): (2, 0.97, 0.05, 101, -5.0, 5.0, 0.0),
    ("g1_motion", "flashsac"): (2, 0.99, 0.05, 101, -5.0, 5.0, 0.0),
    ("go2_flat", "flashsac"): (2, 0.97, 0.05, 101, -5.0, 5.0, 0.0),
    # Published with -10 and 10, which would cut the best returns of 12.3.
    ("g1_walk", "td3"): (2, 0.97, 0.1, 101, -5.0, 15.0, 10.0),
    # Published with -10 and 10, of which this reward would use a twentieth.
    ("go2_flat", "td3"): (2, 0.97, 0.1, 101, -2.0, 3.0, 10.0),
}
# Env steps and critic updates of a whole run.
BUDGETS = {
    ("g1_walk", "sac"): (10_240_000, 40_000),
    ("g1_motion", "sac"): (51_200_000, 100_000),
    ("g1_walk", "flashsac"): (20_480_000, 40_000),
    ("g1_motion", "flashsac"): (51_200_000, 100_000),
    ("g1_walk", "td3"): (409_600_000, 400_000),
}
LARGEST = {"go2_flat": 2.027, "g1_walk": 12.333, "g1_motion": 13.0}
"""Returns of the best step at every step; those of the cart-poles are 5."""
KINDS = {"sac": SacCfg, "td3": Td3Cfg, "flashsac": FlashSacCfg}
PAIRS = list(OWNERS)
DECLARED = [pair for pair in PAIRS if pair[0] in TASKS]


def learner_of(pair: tuple[str, str]) -> OffPolicySettings:
    learner = OWNERS[pair].learner
    assert not isinstance(learner, PpoSettings)
    return learner


def test_published_owners_and_our_own_are_there() -> None:
    assert set(OWNERS) >= RUNS.keys() | OWN_RUNS.keys()


def test_every_task_that_names_an_off_policy_algorithm_is_trained_by_its_owner() -> None:
    named = {(task, algo) for task, entry in TASKS.items() for algo in entry.algorithms if algo in KINDS}

    assert named == set(DECLARED)
    for task, algo in named:
        built = TASKS[task].build(algo)
        owner = OWNERS[task, algo]
        assert (built.train, *built.off_policy) == (owner.train, owner.learner, owner.runtime)


@pytest.mark.parametrize("pair", RUNS | OWN_RUNS)
def test_a_run_is_the_published_one_or_our_own(pair: tuple[str, str]) -> None:
    train, learner = OWNERS[pair].train, learner_of(pair)

    assert (RUNS | OWN_RUNS)[pair] == (
        train.num_envs,
        train.iterations,
        train.save_interval,
        learner.batch_size,
        learner.updates_per_step,
        learner.updates_per_step * learner.batch_size / train.num_envs,
        learner.replay_rows,
        learner.learning_start_rows,
    )


@pytest.mark.parametrize("pair", MATHS)
def test_a_learner_is_the_published_one(pair: tuple[str, str]) -> None:
    learner = learner_of(pair)

    assert type(learner) is KINDS[pair[1]]
    assert learner.n_step == 1
    assert MATHS[pair] == (
        learner.policy_frequency,
        learner.gamma,
        learner.tau,
        learner.atoms,
        learner.v_min,
        learner.v_max,
        learner.max_grad_norm,
    )


@pytest.mark.parametrize("pair", RUNS)
def test_a_whole_run_is_as_long_as_the_published_one(pair: tuple[str, str]) -> None:
    train, learner = OWNERS[pair].train, learner_of(pair)

    assert BUDGETS[pair] == (train.num_envs * train.iterations, train.iterations * learner.updates_per_step)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_replay_holds_whole_steps_and_at_least_the_start(pair: tuple[str, str]) -> None:
    train, learner = OWNERS[pair].train, learner_of(pair)

    assert learner.replay_rows % train.num_envs == 0
    assert learner.batch_size <= learner.learning_start_rows <= learner.replay_rows


@pytest.mark.parametrize(
    ("task", "alpha_init", "target_entropy_ratio"), [("g1_walk", 1e-3, 0.0), ("g1_motion", 0.1, 0.5)]
)
def test_sac_starts_from_the_published_temperature(task: str, alpha_init: float, target_entropy_ratio: float) -> None:
    learner = OWNERS[task, "sac"].learner

    assert isinstance(learner, SacCfg)
    assert (learner.alpha_init, learner.target_entropy_ratio) == (alpha_init, target_entropy_ratio)


@pytest.mark.parametrize("pair", MATHS)
def test_networks_rates_and_exploration_are_the_defaults(pair: tuple[str, str]) -> None:
    learner = learner_of(pair)
    own = {field.name for field in dataclasses.fields(learner)} - {
        *(field.name for field in dataclasses.fields(OffPolicyCfg)),
        "alpha_init",
        "target_entropy_ratio",
    }

    assert {name: getattr(learner, name) for name in own} == {name: getattr(KINDS[pair[1]](), name) for name in own}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_learner_survives_the_way_through_a_configuration_file(pair: tuple[str, str]) -> None:
    learner = learner_of(pair)

    assert from_plain(type(learner), learner, to_plain(learner, "learner"), "learner") == learner


@pytest.mark.parametrize("pair", DECLARED)
def test_the_ends_hold_every_return_and_leave_it_many_atoms(pair: tuple[str, str]) -> None:
    """Best step by the declared weights: each foot of the Go2 swings 0.4 of the time."""
    task, learner = TASKS[pair[0]].build(pair[1]), learner_of(pair)
    shares = {"swing_feet_z": 0.4}
    best = sum(term.weight * shares.get(name, 1.0) for name, term in task.env.rewards.items() if term.weight > 0)
    largest = best * task.env.step_dt / (1.0 - learner.gamma)

    assert largest == pytest.approx(LARGEST.get(pair[0], 5.0), rel=1e-3)
    if isinstance(learner, FlashSacCfg):
        # It scales rewards by the returns it sees.
        assert (learner.v_min, learner.v_max, learner.max_return) == (-5.0, 5.0, 5.0)
    else:
        assert learner.v_min < 0.0 < largest < learner.v_max
        assert (learner.v_max - learner.v_min) / (learner.atoms - 1) < largest / 30
