"""Go2 flat against the figures of the public product."""

from dataclasses import replace

import pytest
import torch

from application.tasks.go2_flat import GO2_FLAT
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from tests.support.tasks import make_env, with_command, with_event

TERMS = (
    "tracking_lin_vel",
    "tracking_ang_vel",
    "lin_vel_z",
    "ang_vel_xy",
    "base_height",
    "action_rate",
    "similar_to_default",
    "contact",
    "swing_feet_z",
)
# Weight times value of each term after k steps, and the root height, as measured on the public unilab 1.5.2.
TABLE = {
    1: ((0.48020, 0.16293, -0.01466, -0.00409, -0.00016, -0.00030, -0.04380, 0.24000, 0.00000), 0.016403, 0.30126),
    5: ((0.41443, 0.16301, -0.04622, -0.00072, -0.00975, -0.00000, -0.06834, 0.12000, 1.05520), 0.032552, 0.30987),
}


def _known_start() -> EnvCfg:
    """Put the robot exactly to the keyframe, with nominal gains and a fixed command."""
    cfg = replace(GO2_FLAT.build("ppo").env, stagger_episodes=False)
    cfg = with_event(cfg, "reset_root", pose={}, velocity={})
    cfg = with_event(cfg, "pd_gains", kp=(35.0, 35.0), kd=(0.5, 0.5))
    return with_command(cfg, "twist", lin_vel_x=(0.6, 0.6), lin_vel_y=(0.1, 0.1), ang_vel_z=(0.3, 0.3))


@pytest.fixture(scope="module")
def env() -> ManagerBasedRlEnv:
    return make_env("go2_flat", 2, seed=0)


def test_reward_terms_after_one_and_five_steps_equal_the_published_table() -> None:
    env = make_env("go2_flat", 3, seed=0, cfg=_known_start())
    env.reset()
    joints = torch.arange(12, dtype=torch.float32)

    for k in range(1, 6):
        action = (0.1 * torch.sin(joints + 0.1 * k)).repeat(3, 1)
        reward = env.step(action).reward
        if k in TABLE:
            terms, total, height = TABLE[k]
            for row in range(3):
                torch.testing.assert_close(env.rewards.weighted[row], torch.tensor(terms), atol=5e-5, rtol=0)
            torch.testing.assert_close(reward, torch.full((3,), total), atol=5e-6, rtol=0)
            torch.testing.assert_close(
                env.view.entity("robot").root_pos[:, 2], torch.full((3,), height), atol=5e-6, rtol=0
            )
    assert env.rewards.names == TERMS


def test_weights_are_those_of_the_ppo_owner(env: ManagerBasedRlEnv) -> None:
    assert env.rewards.weights.tolist() == pytest.approx([1.0, 0.2, -5.0, -0.1, -100.0, -0.005, -0.1, 0.24, 4.0])


def test_observations_have_the_published_terms_in_order(env: ManagerBasedRlEnv) -> None:
    actor = {
        "base_ang_vel": 3,
        "projected_gravity": 3,
        "joint_pos": 12,
        "joint_vel": 12,
        "actions": 12,
        "command": 3,
        "gait_phase": 4,
    }

    layout = env.observations.layout

    assert list(layout["actor"].items()) == list(actor.items())
    assert list(layout["critic"].items()) == [*actor.items(), ("base_lin_vel", 3)]
    assert env.observations.widths == {"actor": 49, "critic": 52}


def test_sizes_and_timing(env: ManagerBasedRlEnv) -> None:
    assert (env.actions.dim, env.cfg.decimation, env.cfg.max_episode_length) == (12, 2, 1000)
    assert env.cfg.step_dt == pytest.approx(0.02)
    assert env.view.index.nsensordata == 25


def test_a_bounded_policy_reaches_as_far_as_the_published_one_of_flashsac(env: ManagerBasedRlEnv) -> None:
    low, high = env.actions.bounds

    assert [0.25 * bound for bound in high] == pytest.approx([0.4] * 12)
    assert [-bound for bound in low] == list(high)


def test_actions_are_in_joint_order_although_actuators_are_not(env: ManagerBasedRlEnv) -> None:
    env.reset()
    action = torch.zeros(2, 12)
    action[:, 0] = 1.0

    env.step(action)

    default = env.view.entity("robot").default_joint_pos[0]
    names = env.view.index.actuators
    control = dict(zip(names, env.view.backend.control[0].tolist(), strict=True))
    assert names[0] == "FR_hip"
    assert control["FL_hip"] == pytest.approx(float(default[0]) + 0.25)
    assert control["FR_hip"] == pytest.approx(float(default[3]))
