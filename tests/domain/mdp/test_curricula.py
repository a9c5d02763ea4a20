"""Parameters that change by stages of the global step."""

from typing import Any

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError
from domain.managers.command import CommandTermCfg
from domain.managers.curriculum import CurriculumTermCfg
from domain.mdp.commands import UniformPoseCommand, UniformVelocityCommand
from domain.mdp.curricula import StagedParameter
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
