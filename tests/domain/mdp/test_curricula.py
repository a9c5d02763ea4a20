"""Parameters that change by stages of the global step, and weights that follow the length of episodes."""

from typing import Any

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError
from domain.managers.command import CommandTermCfg
from domain.managers.curriculum import CurriculumTermCfg
from domain.mdp.commands import UniformPoseCommand, UniformVelocityCommand
from domain.mdp.curricula import PenaltyScaling, StagedParameter
from tests.support.host_sync import ForbidHostSync
from tests.support.small_env import LIMIT, make_env, mask, one, reward, step

WEIGHT = "rewards.one.weight"


def staged(target: str, *stages: tuple[int, object]) -> dict[str, CurriculumTermCfg]:
    return {"c": CurriculumTermCfg(func=StagedParameter, params={"target": target, "stages": stages})}


def make(target: str, *stages: tuple[int, object], **parts: Any) -> ManagerBasedRlEnv:
    twist = {"lin_vel_x": (0.0, 1.0), "lin_vel_y": (0.0, 0.0), "ang_vel_z": (0.0, 0.0), "standing_share": 0.0}
    pose = {"pose": {"x": (0.0, 1.0)}}
    commands = {
        "twist": CommandTermCfg(func=UniformVelocityCommand, params=twist, resampling_time_s=(10.0, 10.0)),
        "pose": CommandTermCfg(func=UniformPoseCommand, params=pose, resampling_time_s=(10.0, 10.0)),
    }
    default = {"rewards": {"one": reward(one, 1.0)}, "commands": commands, "scale_rewards_by_dt": False}
    return make_env(curricula=staged(target, *stages), **{**default, **parts})


def test_a_weight_changes_at_the_first_reset_after_its_stage_begins() -> None:
    env = make(WEIGHT, (3, 5.0))
    weights = []
    for _ in range(4):
        weights.append(float(step(env).reward[0]))
        env.reset(mask(1, 0))

    assert weights == [1.0, 1.0, 1.0, 5.0]


def test_without_a_reset_nothing_changes() -> None:
    env = make(WEIGHT, (1, 5.0))
    step(env, 5)
    env.reset(mask(0, 0))

    assert step(env).reward.tolist() == [1.0, 1.0]


def test_the_last_stage_that_has_begun_counts_and_their_number_is_logged() -> None:
    env = make(WEIGHT, (1, 2.0), (2, 3.0), (50, 4.0))
    step(env, 5)
    env.reset(mask(1, 0))

    assert step(env).reward.tolist() == [3.0, 3.0]
    assert env.curricula.values["c"] == 2.0


def test_a_term_of_weight_0_comes_alive() -> None:
    env = make(WEIGHT, (1, 2.0), rewards={"one": reward(one, 0.0)})
    assert step(env).reward.tolist() == [0.0, 0.0]
    env.reset(mask(0, 1))

    assert step(env).reward.tolist() == [2.0, 2.0]


def test_a_range_of_a_command_changes() -> None:
    env = make("commands.twist.params.lin_vel_x", (1, (5.0, 5.0)))
    step(env)
    env.reset()

    assert env.view.command("twist")[:, 0].tolist() == [5.0, 5.0]


def test_a_table_of_ranges_is_staged_as_it_is_declared() -> None:
    env = make("commands.pose.params.pose", (1, {"x": (3.0, 3.0), "y": (4.0, 4.0)}))
    step(env)
    env.reset()

    assert env.view.command("pose")[0, :3].tolist() == [3.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("target", "stages", "match"),
    [
        ("rewards.on.weight", ((1, 1.0),), "unknown run-time parameter 'rewards.on.weight': did you mean"),
        (WEIGHT, (), "stages begin at"),
        (WEIGHT, ((5, 1.0), (3, 2.0)), "in rising order"),
        (WEIGHT, ((3, 1.0), (3, 2.0)), "in rising order"),
        (WEIGHT, ((-1, 1.0),), "none negative"),
        (WEIGHT, ((1, (1.0, 2.0)),), r"the value of stage 1 has shape \(2,\), rewards.one.weight has \(\)"),
        (WEIGHT, ((1, float("nan")),), "the value of stage 1 is nan"),
        ("commands.twist.params.lin_vel_x", ((1, (1.0, -1.0)),), "stage 1 is .*low is above high"),
        ("commands.twist.params.standing_share", ((1, 1.5),), r"stage 1 is 1.5, outside \[0.0, 1.0\]"),
        ("commands.twist.resampling_time_s", ((1, (-1.0, 1.0)),), "stage 1 is -1.0, outside"),
        ("commands.pose.params.pose", ((1, {"w": (0.0, 1.0)}),), "unknown axis 'w'"),
    ],
)
def test_a_stage_that_the_parameter_could_not_be_declared_with_is_refused(
    target: str, stages: tuple[tuple[int, object], ...], match: str
) -> None:
    """FR-44."""
    with pytest.raises(ConfigurationError, match=f"curricula.c: .*{match}"):
        make(target, *stages)


def test_stages_also_begin_at_automatic_resets() -> None:
    env = make(WEIGHT, (1, 5.0), terminations=LIMIT, episode_length_s=0.04)
    rewards = [float(step(env).reward[0]) for _ in range(3)]

    assert rewards == [1.0, 1.0, 5.0]
    assert torch.equal(env.curricula.values["c"], torch.tensor(1.0))


SCALING: dict[str, Any] = {
    "start": 0.5,
    "bounds": (0.5, 1.0),
    "lengths": (150.0, 750.0),
    "factors": (0.9, 1.25),
    "window_share": 1.0,
}
PENALISED = {"up": reward(one, 2.0), "down": reward(one, -8.0), "further": reward(one, -1.0), "off": reward(one, 0.0)}


def scaling(num_envs: int = 4, rewards: Any = PENALISED, **params: Any) -> ManagerBasedRlEnv:
    cfg = CurriculumTermCfg(func=PenaltyScaling, params={**SCALING, **params})
    return make_env(num_envs, rewards=rewards, curricula={"penalty": cfg})


def end(env: ManagerBasedRlEnv, *lengths: int) -> None:
    """End episodes of these lengths in the first rows, half of them by a failure."""
    rows = torch.arange(env.num_envs) < len(lengths)
    env.view.episode_length[: len(lengths)] = torch.tensor(lengths)
    env.view.terminated.copy_(rows & (torch.arange(env.num_envs) % 2 == 0))
    env.view.truncated.copy_(rows & (torch.arange(env.num_envs) % 2 == 1))
    env.curricula.compute(rows)


def scale(env: ManagerBasedRlEnv) -> float:
    """Return the logged scale, and check that all weights follow it."""
    value = float(env.curricula.values["penalty"])
    torch.testing.assert_close(env.rewards.weights, torch.tensor([2.0, -8.0 * value, -1.0 * value]))
    return value


def test_negative_weights_start_scaled_and_others_as_declared() -> None:
    env = scaling()

    assert env.rewards.names == ("up", "down", "further")
    assert scale(env) == 0.5
    assert env.rewards.weights.tolist() == [2.0, -4.0, -0.5]


def test_long_episodes_raise_the_scale_up_to_its_end() -> None:
    env = scaling()
    seen = []
    for _ in range(5):
        end(env, 800, 800, 800, 800)
        seen.append(scale(env))

    # The window is 4 episodes: each batch replaces the mean. 0.5 * 1.25^k, no further than 1.
    assert seen == pytest.approx([0.625, 0.78125, 0.9765625, 1.0, 1.0])


def test_short_episodes_lower_the_scale_down_to_its_end() -> None:
    env = scaling(start=0.7)
    seen = []
    for _ in range(4):
        end(env, 100, 140, 100, 140)
        seen.append(scale(env))

    assert seen == pytest.approx([0.63, 0.567, 0.5103, 0.5])


def test_mean_lengths_in_between_and_at_the_thresholds_keep_the_scale() -> None:
    env = scaling(start=0.7)
    for lengths in ((150,) * 4, (750,) * 4, (1000, 100, 700, 200)):
        end(env, *lengths)
        assert scale(env) == pytest.approx(0.7)


def test_the_mean_runs_over_a_window_of_episodes() -> None:
    env = scaling(start=0.7, window_share=2.0)
    means = []
    for lengths in ((800, 800), (1000, 900, 800, 700), (400,), (1000,) * 4, (1000,) * 4):
        end(env, *lengths)
        means.append(float(env.state_dict()["curricula/penalty/term/mean_length"]))

    # Of 8 episodes: 2/8 of 800; then half, half of 850; 1/8 of 400; half of 1000 twice.
    second = 0.5 * 200 + 0.5 * 850
    third = second * 7 / 8 + 50
    assert means == pytest.approx([200.0, second, third, third / 2 + 500, third / 4 + 750])
    assert means[3] > 750 > means[2]
    # Only the last two batches lie above 750, none below 150.
    assert scale(env) == pytest.approx(min(1.0, 0.7 * 1.25 * 1.25))


def test_a_batch_larger_than_the_window_is_the_mean() -> None:
    env = scaling(window_share=0.5)
    end(env, 800, 900, 1000, 500)

    assert float(env.state_dict()["curricula/penalty/term/mean_length"]) == 800.0


def test_resets_of_rows_that_did_not_end_count_for_nothing() -> None:
    env = scaling(start=0.7)
    before = env.curricula.state_dict()
    env.view.episode_length.fill_(900)
    env.reset(mask(1, 0, 1, 0))
    env.curricula.compute(mask(0, 0, 0, 0))

    after = env.curricula.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert scale(env) == pytest.approx(0.7)


def test_rows_outside_the_mask_count_for_nothing() -> None:
    env = scaling(start=0.7)
    env.view.episode_length[:] = torch.tensor([100, 100, 900, 900])
    env.view.terminated.fill_(True)
    env.curricula.compute(mask(0, 0, 1, 1))

    assert float(env.state_dict()["curricula/penalty/term/mean_length"]) == 450.0


def test_automatic_resets_count_their_episodes_as_they_ended() -> None:
    cfg = CurriculumTermCfg(func=PenaltyScaling, params={**SCALING, "lengths": (1.0, 2.5)})
    env = make_env(curricula={"penalty": cfg}, rewards=PENALISED, terminations=LIMIT, episode_length_s=0.06)
    step(env, 3)

    assert float(env.state_dict()["curricula/penalty/term/mean_length"]) == 3.0
    assert scale(env) == pytest.approx(0.625)
    # The step that ended the episodes was still rewarded by the weights before.
    torch.testing.assert_close(step(env).reward, torch.full((2,), (2.0 - 9.0 * 0.625) * 0.02))


def test_only_the_named_weights_are_scaled_if_negative() -> None:
    env = scaling(targets=("rewards.further.weight", "rewards.up.weight", "rewards.off.weight"))

    assert env.rewards.names == ("up", "down", "further", "off")
    assert env.rewards.weights.tolist() == [2.0, -8.0, -0.5, 0.0]


def test_scale_mean_and_weights_are_saved() -> None:
    env, other = scaling(), scaling()
    end(env, 800, 800, 800, 800)
    other.load_state_dict(env.state_dict())

    assert torch.equal(other.rewards.weights, env.rewards.weights)
    for each in (env, other):
        end(each, 760, 760)
    assert scale(other) == scale(env) == pytest.approx(0.5 * 1.25**2)


def test_scaling_asks_the_device_for_nothing() -> None:
    env = scaling()
    env.view.episode_length.fill_(800)
    env.view.truncated.fill_(True)

    with ForbidHostSync():
        env.curricula.compute(mask(1, 1, 1, 1))

    assert scale(env) == pytest.approx(0.625)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"start": 0.4}, r"curricula.penalty: start is 0.4, outside bounds \[0.5, 1.0\]"),
        ({"bounds": (1.0, 0.5)}, "bounds is .* low is above high"),
        ({"bounds": (-1.0, 0.5)}, "bounds is -1.0, outside"),
        ({"lengths": (750.0, 150.0)}, "lengths is .* low is above high"),
        ({"factors": (0.0, 1.0)}, "factors is 0.0, outside"),
        ({"window_share": 0.0}, "window_share is 0.0, outside"),
        ({"targets": ("rewards.dwn.weight",)}, "unknown run-time parameter 'rewards.dwn.weight': did you mean"),
        ({"targets": ("curricula.penalty.params.factors",)}, "targets: curricula.penalty.params.factors is no weight"),
        ({"window": 1.0}, "unknown parameter 'window'"),
    ],
)
def test_an_impossible_scaling_is_refused(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        scaling(**params)
