"""What the G1 motion task declares for each algorithm, against the published tables."""

from dataclasses import replace

import pytest
import torch

from application.tasks.g1_motion import BODIES, G1_MOTION, HIGH_BODIES
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.learning.config import Td3Cfg
from domain.managers.noise import UniformNoise
from domain.motion.command import MotionCommand
from tests.support.standing import standing_env

ALGORITHMS = ("ppo", "sac", "td3", "flashsac")
OFF_POLICY = ALGORITHMS[1:]
ACTOR = {
    "command": 58,
    "motion_anchor_pos_b": 3,
    "motion_anchor_ori_b": 6,
    "base_lin_vel": 3,
    "base_ang_vel": 3,
    "joint_pos": 29,
    "joint_vel": 29,
    "actions": 29,
}
EXTRA = {"body_pos": 42, "body_ori": 84}
WEIGHTS = {
    "motion_global_root_pos": (0.5, 1.0),
    "motion_global_root_ori": (0.5, 0.5),
    "motion_body_pos": (1.0, 2.0),
    "motion_body_ori": (1.0, 1.0),
    "motion_body_lin_vel": (1.0, 1.0),
    "motion_body_ang_vel": (1.0, 1.0),
    "motion_joint_pos": (0.0, 0.0),
    "motion_joint_vel": (0.0, 0.0),
    "action_rate_l2": (-0.1, -0.1),
    "joint_limit": (-10.0, -2.0),
}
"""On-policy and off-policy, in order; off-policy has undesired_contacts besides."""
STDS = {"pos": 0.3, "ori": 0.4, "lin_vel": 1.0, "ang_vel": 3.14, "joint_pos": 0.2, "joint_vel": 1.0}


@pytest.fixture(scope="module", params=ALGORITHMS)
def algo_and_env(request: pytest.FixtureRequest) -> tuple[str, ManagerBasedRlEnv]:
    return request.param, standing_env(request.param, 4)


def declared(algo: str) -> EnvCfg:
    return G1_MOTION.build(algo).env


def test_observations_have_the_published_terms_in_order(algo_and_env: tuple[str, ManagerBasedRlEnv]) -> None:
    algo, env = algo_and_env
    critic = list(ACTOR)
    if algo == "sac":
        critic.remove("joint_pos")
        critic.append("joint_pos")
    critic += [*EXTRA, *([] if algo == "ppo" else ["sac_base_lin_vel"])]

    layout = env.observations.layout

    assert list(layout["actor"].items()) == list(ACTOR.items())
    assert list(layout["critic"]) == critic
    assert layout["critic"] == {name: {**ACTOR, **EXTRA, "sac_base_lin_vel": 3}[name] for name in critic}
    assert env.observations.widths == {"actor": 160, "critic": 286 if algo == "ppo" else 289}


def test_sizes_and_timing(algo_and_env: tuple[str, ManagerBasedRlEnv]) -> None:
    algo, env = algo_and_env

    assert (env.actions.dim, env.cfg.decimation, env.cfg.max_episode_length) == (29, 3, 500)
    assert env.cfg.sim_dt == pytest.approx(1 / 150)
    assert env.cfg.step_dt == pytest.approx(0.02)
    assert env.view.index.nsensordata == 6 + 14 * 13
    assert declared(algo).commands["motion"].resampling_time_s is None


def test_an_action_of_one_is_the_published_angle(algo_and_env: tuple[str, ManagerBasedRlEnv]) -> None:
    algo, env = algo_and_env
    scale = 0.25 if algo == "ppo" else 2.0
    env.reset()
    before = env.view.entity("robot").default_joint_pos - env.view.entity("robot").encoder_bias

    env.step(torch.ones(4, 29))

    going_on = ~(env.view.terminated | env.view.truncated)
    torch.testing.assert_close(env.view.backend.control[going_on], (before + scale)[going_on])
    assert (env.actions.bounds[0][0], env.actions.bounds[1][0]) == (-2.0 / scale, 2.0 / scale)


def test_weights_and_widths_of_rewards_are_published(algo_and_env: tuple[str, ManagerBasedRlEnv]) -> None:
    algo, env = algo_and_env
    weights = {name: pair[algo != "ppo"] for name, pair in WEIGHTS.items()}
    weights |= {} if algo == "ppo" else {"undesired_contacts": -0.1}

    rewards = declared(algo).rewards

    assert [(name, term.weight) for name, term in rewards.items()] == list(weights.items())
    assert env.rewards.names == tuple(name for name, weight in weights.items() if weight != 0.0)
    assert env.rewards.dropped == ("motion_joint_pos", "motion_joint_vel")
    for name, term in rewards.items():
        if name.startswith("motion_"):
            quantity = next(q for q in sorted(STDS, key=len, reverse=True) if name.endswith(q))
            assert term.params["std"] == STDS[quantity]


def test_ten_bodies_shall_not_touch_the_floor() -> None:
    links = ("hip_roll", "knee", "shoulder_roll", "elbow")
    named = {"pelvis", "torso_link", *(f"{side}_{link}_link" for side in ("left", "right") for link in links)}

    assert (len(HIGH_BODIES), set(HIGH_BODIES)) == (10, named)
    assert declared("sac").rewards["undesired_contacts"].params == {
        "command": "motion",
        "bodies": HIGH_BODIES,
        "height": 0.05,
    }


def test_bodies_are_tracked_in_the_published_order() -> None:
    assert BODIES == (
        "pelvis",
        "left_hip_roll_link",
        "left_knee_link",
        "left_ankle_roll_link",
        "right_hip_roll_link",
        "right_knee_link",
        "right_ankle_roll_link",
        "torso_link",
        "left_shoulder_roll_link",
        "left_elbow_link",
        "left_wrist_yaw_link",
        "right_shoulder_roll_link",
        "right_elbow_link",
        "right_wrist_yaw_link",
    )
    params = declared("ppo").commands["motion"].params
    assert (params["bodies"], params["anchor"], params["sampling"]) == (BODIES, "torso_link", "adaptive")


def test_ends_of_episodes_are_published(algo_and_env: tuple[str, ManagerBasedRlEnv]) -> None:
    algo, env = algo_and_env
    off_policy = algo != "ppo"
    far = 0.5 if off_policy else 0.25

    terms = declared(algo).terminations

    ends = ("time_out", "anchor_pos", "anchor_ori", "ee_body_pos")
    assert env.terminations.names == (*ends, "motion_clip_end") if off_policy else ends
    limits = {name: term.params["limit"] for name, term in terms.items() if "limit" in term.params}
    assert limits == {"anchor_pos": far, "anchor_ori": 0.8, "ee_body_pos": far}
    assert {name for name, term in terms.items() if term.time_out} == (
        {"time_out", "motion_clip_end"} if off_policy else {"time_out"}
    )
    assert set(terms["ee_body_pos"].params["bodies"]) == {
        f"{side}_{link}_link" for side in ("left", "right") for link in ("ankle_roll", "wrist_yaw")
    }
    assert declared(algo).commands["motion"].params["truncate_on_clip_end"] is off_policy


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_only_off_policy_actors_see_noise(algo: str) -> None:
    groups = declared(algo).observations
    seen = {name: term.noise for name, term in groups["actor"].terms.items() if term.noise is not None}
    most = {"base_lin_vel": 0.1, "base_ang_vel": 0.2, "joint_pos": 0.01, "joint_vel": 1.5}

    assert seen == ({} if algo == "ppo" else {n: UniformNoise(low=-most[n], high=most[n]) for n in most})
    assert not groups["critic"].enable_corruption
    assert all(term.noise is None for term in groups["critic"].terms.values())


def test_only_sac_randomises_the_simulation() -> None:
    assert {algo: list(declared(algo).events) for algo in ALGORITHMS} == {
        "ppo": [],
        "sac": ["torso_com", "encoder_bias", "foot_friction", "push"],
        "td3": [],
        "flashsac": [],
    }


def test_starts_are_spread_as_published() -> None:
    params = declared("ppo").commands["motion"].params

    assert params["pose"] == {
        "x": (-0.05, 0.05),
        "y": (-0.05, 0.05),
        "z": (-0.01, 0.01),
        "roll": (-0.1, 0.1),
        "pitch": (-0.1, 0.1),
        "yaw": (-0.2, 0.2),
    }
    shove = {
        "x": (-0.5, 0.5),
        "y": (-0.5, 0.5),
        "z": (-0.2, 0.2),
        "roll": (-0.52, 0.52),
        "pitch": (-0.52, 0.52),
        "yaw": (-0.78, 0.78),
    }
    assert params["velocity"] == declared("sac").events["push"].params["velocity"] == shove
    assert params["joint_pos"] == (-0.1, 0.1)


def test_training_values_of_ppo_are_published() -> None:
    task = G1_MOTION.build("ppo")

    assert (task.train.num_envs, task.train.iterations, task.train.save_interval) == (1024, 15_000, 500)
    assert getattr(task.learner, "entropy_coef", None) == 0.005


def test_td3_explores_about_as_widely_as_the_published_algorithms_on_this_task() -> None:
    """SAC's target of -0.5 nats an action is a Gaussian of deviation 0.147, FlashSAC's target sigma is 0.15."""
    learner = G1_MOTION.build("td3").learner

    assert isinstance(learner, Td3Cfg)
    assert (learner.sigma_min + learner.sigma_max) / 2 == pytest.approx(0.15)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_policies_are_played_from_the_beginning_of_a_clip_and_teach_it_nothing(algo: str) -> None:
    task = G1_MOTION.build(algo)

    assert task.scene.motions == ("builtin:squat",)
    assert task.evaluation == {
        "commands.motion.params.sampling": "clip_start",
        "commands.motion.params.collect_statistics": False,
    }
    played = {**task.env.commands["motion"].params, "sampling": "clip_start", "collect_statistics": False}
    command = replace(task.env.commands["motion"], params=played)
    env = standing_env(algo, 2, cfg=replace(task.env, commands={"motion": command}, stagger_episodes=False))
    env.reset()
    assert env.view.command_term("motion", MotionCommand).frame.tolist() == [0, 0]
