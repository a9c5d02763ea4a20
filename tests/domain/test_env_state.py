"""An environment that is saved and loaded goes on bit for bit."""

import pytest
import torch

from domain.env import StepResult
from domain.errors import DataError
from tests.support.full_task import drive, full_env
from tests.support.small_env import make_env, step


def assert_equal(left: list[StepResult], right: list[StepResult]) -> None:
    for one, two in zip(left, right, strict=True):
        for name in ("reward", "terminated", "truncated", "valid"):
            assert torch.equal(getattr(one, name), getattr(two, name)), name
        for group in one.observations:
            assert torch.equal(one.observations[group], two.observations[group])
            assert torch.equal(one.final_observations[group], two.final_observations[group])


@pytest.mark.parametrize("taken", [0, 33])
def test_a_loaded_environment_of_another_seed_goes_on_bit_for_bit(taken: int) -> None:
    env, other = full_env(seed=3), full_env(seed=4)
    drive(env, taken)
    drive(other, 7)
    other.load_state_dict(env.state_dict())

    assert_equal(drive(env, 60, start=taken), drive(other, 60, start=taken))

    left, right = env.state_dict(), other.state_dict()
    assert [name for name, value in left.items() if not torch.equal(value, right[name])] == []
    assert torch.equal(env.drain_episodes().values.nan_to_num(), other.drain_episodes().values.nan_to_num())


def test_a_fresh_environment_may_load_before_its_first_reset() -> None:
    env, other = make_env(), make_env(started=False)
    step(env, 3)
    other.load_state_dict(env.state_dict())

    assert step(other).observations["actor"].tolist() == [[4.0], [4.0]]


def test_everything_that_lives_on_is_in_the_state() -> None:
    names = set(full_env().state_dict())

    assert {
        "step_count",
        "episode_length",
        "elapsed",
        "rng/generator",
        "rng/block",
        "backend/engine_qpos",
        "backend/field/body_mass",
        "writes/fields/body_mass",
        "writes/outside",
        "encoder_bias/robot",
        "tunable/rewards.action_rate.weight",
        "tunable/commands.twist.params.lin_vel_x",
        "observations/actor/joint_pos/noise/bias",
        "observations/actor/joint_pos/history/slots",
        "observations/actor/gravity/delay/lag",
        "observations/current/actor",
        "actions/action_before_previous",
        "actions/legs/delay/history/slots",
        "commands/time_left",
        "commands/twist/heading",
        "commands/gait/phase",
        "events/push/timer/time_left",
        "events/last_fired/armature",
        "rewards/episode_sums",
        "rewards/joint_acc/previous",
        "metrics/values",
        "curricula/rewards_action_rate_weight",
        "episodes/sums",
        "faults/counts",
    } <= names


def test_a_saved_state_does_not_change_with_the_environment() -> None:
    env = full_env()
    saved = env.state_dict()
    kept = {name: value.clone() for name, value in saved.items()}
    drive(env, 5)

    assert all(torch.equal(saved[name], value) for name, value in kept.items())


def test_loading_keeps_every_storage() -> None:
    env = full_env()
    state = env.state_dict()
    tensors = [env.view.state.qpos, env.view.command("twist"), env.view.rng.block, env.observations.current["actor"]]
    before = [tensor.data_ptr() for tensor in tensors]
    env.load_state_dict(state)

    assert [tensor.data_ptr() for tensor in tensors] == before


def test_a_state_of_another_configuration_is_refused_before_anything_changes() -> None:
    env, other = full_env(), make_env(6)
    before = env.state_dict()

    with pytest.raises(DataError, match="it belongs to another configuration or version"):
        env.load_state_dict(other.state_dict())
    with pytest.raises(DataError, match="expected"):
        env.load_state_dict(full_env(5).state_dict())
    after = env.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
