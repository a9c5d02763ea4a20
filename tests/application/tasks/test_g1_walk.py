"""G1 walk against the figures of the public product."""

import math
from dataclasses import replace

import pytest
import torch

from application.settings import PpoSettings, SceneSettings
from application.tasks.g1_walk import G1_WALK
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg
from domain.locomotion.gait import GaitClock
from domain.managers.noise import UniformNoise
from tests.support.host_sync import ForbidHostSync
from tests.support.tasks import make_env, with_command, with_event

PPO_WEIGHTS = {
    "tracking_lin_vel": 2.0,
    "tracking_ang_vel": 0.2,
    "feet_phase": 1.0,
    "feet_air_time": 0.25,
    "lin_vel_z": -1.0,
    "ang_vel_xy": -0.25,
    "base_height": -500.0,
    "orientation": -5.0,
    "action_rate": -0.01,
    "pose": -0.1,
}
SAC_WEIGHTS = {
    "tracking_lin_vel": 2.0,
    "tracking_ang_vel": 1.5,
    "penalty_ang_vel_xy": -1.0,
    "penalty_orientation": -10.0,
    "penalty_action_rate": -4.0,
    "pose": -0.5,
    "penalty_feet_ori": -20.0,
    "feet_phase": 5.0,
    "alive": 10.0,
}
WEIGHTS = {
    "ppo": PPO_WEIGHTS,
    "sac": SAC_WEIGHTS,
    "td3": SAC_WEIGHTS,
    "flashsac": {**SAC_WEIGHTS, "penalty_action_rate": -5.0, "penalty_feet_ori": -25.0},
}
# By algorithm and step k: weight times value of each term, the total and the root height, as measured on the public
# unilab 1.5.2.
TABLE = {
    ("ppo", 1): (
        (0.43072, 0.09947, 0.33016, 0.0, -0.00204, -0.00540, -0.00056, -0.00001, -0.00141, -0.00037),
        0.017011,
        0.75294,
    ),
    ("ppo", 5): (
        (0.64393, 0.08703, 0.42646, 0.0, -0.00597, -0.00278, -0.04200, -0.00029, -0.00001, -0.03202),
        0.021487,
        0.74484,
    ),
    ("sac", 1): (
        (0.40923, 0.25916, -0.08481, -0.00010, -0.56427, -0.02659, -0.00059, 4.01264, 10.0),
        0.280094,
        0.75283,
    ),
    ("sac", 5): (
        (0.66757, 0.02374, -0.04500, -0.00831, -0.00592, -0.88155, -0.00012, 4.21990, 10.0),
        0.279406,
        0.74375,
    ),
}
START_PHASE = 2.8706
"""Of the left foot in those measurements, rad."""


def declared(algo: str) -> EnvCfg:
    return G1_WALK.build(algo).env


def built(algo: str, num_envs: int = 2) -> ManagerBasedRlEnv:
    return make_env("g1_walk", num_envs, seed=0, cfg=declared(algo))


@pytest.fixture(scope="module")
def envs() -> dict[str, ManagerBasedRlEnv]:
    return {algo: built(algo) for algo in G1_WALK.algorithms}


def _known_start(algo: str) -> EnvCfg:
    """Put the robot exactly to the keyframe, with nominal gains, a fixed command and unscaled weights."""
    cfg = replace(declared(algo), stagger_episodes=False, curricula={})
    cfg = with_event(cfg, "reset_root", pose={}, velocity={})
    cfg = with_event(cfg, "pd_gains", kp=(1.0, 1.0), kd=(1.0, 1.0))
    return with_command(cfg, "twist", lin_vel_x=(0.6, 0.6), lin_vel_y=(0.1, 0.1), ang_vel_z=(0.3, 0.3))


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_reward_terms_after_one_and_five_steps_equal_the_published_table(algo: str) -> None:
    env = make_env("g1_walk", 2, seed=0, cfg=_known_start(algo))
    env.reset()
    env.view.command_term("gait", GaitClock).phase.fill_(START_PHASE / (2.0 * math.pi))
    joints = torch.arange(29, dtype=torch.float32)

    for k in range(1, 6):
        reward = env.step((0.1 * torch.sin(joints + 0.1 * k)).repeat(2, 1)).reward
        if (algo, k) in TABLE:
            terms, total, height = TABLE[algo, k]
            for row in range(2):
                torch.testing.assert_close(env.rewards.weighted[row], torch.tensor(terms), atol=5e-5, rtol=0)
            torch.testing.assert_close(reward, torch.full((2,), total), atol=5e-6, rtol=0)
            root = env.view.entity("robot").root_pos[:, 2]
            torch.testing.assert_close(root, torch.full((2,), height), atol=1e-5, rtol=0)


@pytest.mark.parametrize("algo", G1_WALK.algorithms)
def test_weights_are_the_published_ones_and_penalties_start_at_a_sixteenth(
    algo: str, envs: dict[str, ManagerBasedRlEnv]
) -> None:
    env, stated = envs[algo], WEIGHTS[algo]
    share = 1.0 if algo == "ppo" else 0.0625

    assert {name: term.weight for name, term in declared(algo).rewards.items()} == stated
    assert env.rewards.names == tuple(stated)
    assert env.rewards.weights.tolist() == pytest.approx([w if w > 0 else share * w for w in stated.values()])
    assert {name: float(value) for name, value in env.curricula.values.items()} == (
        {} if algo == "ppo" else {"penalty_scaling": 0.0625}
    )


@pytest.mark.parametrize(
    ("algo", "sigma", "hip_roll"),
    [("ppo", 0.008, 1.0), ("sac", 0.04, 1.0), ("td3", 0.04, 1.0), ("flashsac", 0.005, 2.0)],
)
def test_widths_of_kernels_and_weights_of_joints_are_the_published_ones(
    algo: str, sigma: float, hip_roll: float, envs: dict[str, ManagerBasedRlEnv]
) -> None:
    rewards, joints = declared(algo).rewards, envs[algo].view.entity("robot").index.joints
    weight = dict(zip(joints, rewards["pose"].params["weights"], strict=True))

    assert rewards["feet_phase"].params["sigma"] == sigma
    assert {rewards[name].params["sigma"] for name in ("tracking_lin_vel", "tracking_ang_vel")} == {0.25}
    for side in ("left", "right"):
        leg = [weight[f"{side}_{joint}_joint"] for joint in ("hip_pitch", "hip_roll", "hip_yaw", "knee")]
        assert leg == [0.01, hip_roll, 5.0, 0.01]
        assert [weight[f"{side}_ankle_{axis}_joint"] for axis in ("pitch", "roll")] == [5.0, 5.0]
    upper = [name for name in joints if any(part in name for part in ("waist", "shoulder", "elbow", "wrist"))]
    assert len(upper) == 17
    assert {weight[name] for name in upper} == {50.0}


@pytest.mark.parametrize("algo", G1_WALK.algorithms)
def test_observations_have_the_published_terms_in_order(algo: str, envs: dict[str, ManagerBasedRlEnv]) -> None:
    actor = {
        "base_ang_vel": 3,
        "projected_gravity": 3,
        "joint_pos": 29,
        "joint_vel": 29,
        "actions": 29,
        "command": 3,
        "gait_phase": 2,
    }

    layout = envs[algo].observations.layout

    assert list(layout["actor"].items()) == list(actor.items())
    assert list(layout["critic"].items()) == [*actor.items(), ("base_lin_vel", 3)]
    assert envs[algo].observations.widths == {"actor": 98, "critic": 101}


PPO_NOISE = {"base_ang_vel": 0.2, "projected_gravity": 0.05, "joint_pos": 0.01, "joint_vel": 1.5}
OFF_POLICY_NOISE = {"joint_pos": 0.01, "joint_vel": 0.1}
OFF_POLICY_SCALE = {"base_ang_vel": 0.25, "joint_vel": 0.05, "base_lin_vel": 2.0}


@pytest.mark.parametrize("algo", G1_WALK.algorithms)
def test_actors_see_noise_critics_do_not_and_both_see_the_same_scales(algo: str) -> None:
    groups = declared(algo).observations
    noise, scale = (PPO_NOISE, {}) if algo == "ppo" else (OFF_POLICY_NOISE, OFF_POLICY_SCALE)

    assert groups["actor"].enable_corruption
    assert not groups["critic"].enable_corruption
    terms = groups["actor"].terms
    assert {name: term.noise for name, term in terms.items() if term.noise} == {
        name: UniformNoise(low=-size, high=size) for name, size in noise.items()
    }
    for group in groups.values():
        assert {name: term.scale for name, term in group.terms.items()} == {n: scale.get(n, 1.0) for n in group.terms}


def test_noise_comes_before_the_scale() -> None:
    env = built("sac", 64)
    seen = env.reset()
    start = 3 + 3 + 29
    noise = (seen["actor"] - seen["critic"][:, :98])[:, start : start + 29]

    # Joint velocities are 0 at a reset: noise of +-0.1 rad/s times 0.05.
    torch.testing.assert_close(seen["critic"][:, start : start + 29], torch.zeros(64, 29))
    assert 0.0045 < float(noise.abs().max()) <= 0.005


def test_the_policy_sees_the_gait_in_radians_half_a_turn_apart(envs: dict[str, ManagerBasedRlEnv]) -> None:
    phase = envs["ppo"].reset()["actor"][:, -2:]

    assert bool(((phase >= 0.0) & (phase < 2.0 * math.pi)).all())
    torch.testing.assert_close((phase[:, 1] - phase[:, 0]).abs(), torch.full((2,), math.pi), atol=1e-5, rtol=0)


def test_sizes_and_timing(envs: dict[str, ManagerBasedRlEnv]) -> None:
    env = envs["ppo"]

    assert (env.actions.dim, env.cfg.decimation, env.cfg.max_episode_length) == (29, 3, 1000)
    assert env.cfg.step_dt == pytest.approx(0.02)
    assert env.view.index.nsensordata == 31


@pytest.mark.parametrize(("algo", "scale"), [("ppo", 0.25), ("sac", 1.0), ("td3", 1.0), ("flashsac", 1.0)])
def test_an_action_is_scaled_as_published_and_a_bounded_one_reaches_one_radian(
    algo: str, scale: float, envs: dict[str, ManagerBasedRlEnv]
) -> None:
    env = envs[algo]
    env.reset()
    action = torch.zeros(2, 29)
    action[:, 3] = 0.4

    env.step(action)

    target = env.view.backend.control - env.view.entity("robot").default_joint_pos
    torch.testing.assert_close(target, scale * action)
    low, high = env.actions.bounds
    assert [scale * end for end in (*low, *high)] == pytest.approx([-1.0] * 29 + [1.0] * 29)


@pytest.mark.parametrize(
    ("algo", "max_tilt", "min_height"), [("ppo", 25, 0.55), ("sac", 65, 0.3), ("td3", 65, 0.3), ("flashsac", 65, 0.3)]
)
def test_an_episode_ends_by_tilt_or_height_as_published(
    algo: str, max_tilt: float, min_height: float, envs: dict[str, ManagerBasedRlEnv]
) -> None:
    env = envs[algo]
    env.reset()
    up, root = env.view.sensor("torso_upvector"), env.view.entity("robot").root_pos

    def ends(degrees: tuple[float, float], heights: tuple[float, float]) -> list[list[bool]]:
        angle = torch.deg2rad(torch.tensor(degrees))
        up[:, 1], up[:, 2], root[:, 2] = torch.sin(angle), torch.cos(angle), torch.tensor(heights)
        env.terminations.compute()
        return env.terminations.fired.tolist()

    assert env.terminations.names == ("time_out", "tilt", "base_height")
    upright, high = (0.0, 0.0), (0.75, 0.75)
    assert ends((max_tilt - 0.1, max_tilt + 0.1), high) == [[False] * 3, [False, True, False]]
    assert ends(upright, (min_height + 0.001, min_height - 0.001)) == [[False] * 3, [False, False, True]]


@pytest.mark.parametrize("algo", G1_WALK.algorithms)
def test_gains_are_drawn_around_the_nominal_ones_of_each_servo_anew_at_each_reset(algo: str) -> None:
    """FR-48, FR-55."""
    env = built(algo, 64)
    nominal = env.view.writes.model_field("actuator_gainprm")[0, :, 0].clone()
    nominal_kd = -env.view.writes.model_field("actuator_biasprm")[0, :, 2].clone()
    for _ in range(20):
        env.reset()

    engine = env.view.backend.snapshot()
    gain, bias = engine["model.actuator_gainprm"], engine["model.actuator_biasprm"]
    for drawn, middle in ((gain[..., 0], nominal), (-bias[..., 1], nominal), (-bias[..., 2], nominal_kd)):
        factor = drawn / middle
        assert 0.8999 < float(factor.min()) < 0.91
        assert 1.09 < float(factor.max()) < 1.1001
        assert bool((factor.std(dim=0) > 0.03).all())
    assert nominal[:6].tolist() == pytest.approx([40.179, 99.098, 40.179, 99.098, 28.501, 28.501], abs=1e-3)


def test_a_reset_places_the_root_in_the_published_ranges() -> None:
    env = built("ppo", 256)
    env.reset()
    robot = env.view.entity("robot")

    offset = robot.root_pos - torch.tensor([0.0, 0.0, 0.754])
    assert 0.45 < float(offset[:, :2].abs().max()) <= 0.5
    torch.testing.assert_close(offset[:, 2], torch.zeros(256))
    torch.testing.assert_close(robot.root_quat[:, 1:3], torch.zeros(256, 2))
    velocity = torch.cat((robot.root_lin_vel, robot.root_ang_vel), dim=1)
    assert bool((velocity.std(dim=0) > 0.2).all())
    assert 0.45 < float(robot.root_lin_vel.abs().max()) <= 0.5
    torch.testing.assert_close(robot.joint_pos, robot.default_joint_pos.expand(256, 29))
    assert not robot.joint_vel.any()


def test_slow_commands_stand_but_turn() -> None:
    env = built("ppo", 1024)
    env.reset()
    command = env.view.command("twist")
    speed = command[:, :2].norm(dim=1)

    assert bool(((speed == 0.0) | (speed > 0.2)).all())
    # The disc of 0.2 m/s takes 0.13 m^2/s^2 of 1.6 by 0.8.
    assert 0.06 < float((speed == 0.0).float().mean()) < 0.14
    assert bool((command[speed == 0.0, 2] != 0.0).all())
    low, high = torch.tensor([-0.6, -0.4, -0.8]), torch.tensor([1.0, 0.4, 0.8])
    assert bool(((command >= low) & (command <= high)).all())


def test_the_penalty_scale_is_the_published_one_and_follows_episodes(envs: dict[str, ManagerBasedRlEnv]) -> None:
    env = envs["sac"]
    env.reset()
    state = env.state_dict()
    env.view.episode_length.fill_(1000)
    env.view.truncated.fill_(True)
    try:
        env.curricula.compute(torch.tensor([True, True]))

        # The window of 2 environments is 0.49 episodes, so these 2 are the mean.
        assert float(env.curricula.values["penalty_scaling"]) == pytest.approx(0.0625 * 1.001)
        scaled = [w if w > 0 else 0.0625 * 1.001 * w for w in SAC_WEIGHTS.values()]
        assert env.rewards.weights.tolist() == pytest.approx(scaled)
        for _ in range(1000):
            env.curricula.compute(torch.tensor([True, True]))
        assert float(env.curricula.values["penalty_scaling"]) == 0.125
    finally:
        env.load_state_dict(state)


def test_off_policy_terms_keep_all_data_on_the_device(envs: dict[str, ManagerBasedRlEnv]) -> None:
    env = built("flashsac", 4)
    env.reset()
    env.view.episode_length[:2] = env.cfg.max_episode_length - 2
    generator = torch.Generator().manual_seed(1)

    with ForbidHostSync():
        for _ in range(4):
            env.step(torch.randn(4, 29, generator=generator))
        env.reset(torch.tensor([False, True, False, True]))


def test_settings_are_the_published_ones() -> None:
    ppo = G1_WALK.build("ppo")

    assert (ppo.train.num_envs, ppo.train.iterations, ppo.train.save_interval) == (2048, 2_200, 100)
    assert ppo.learner == PpoSettings()
    kinds = [type(G1_WALK.build(algo).learner) for algo in ("sac", "td3", "flashsac")]
    assert kinds == [SacCfg, Td3Cfg, FlashSacCfg]


@pytest.mark.parametrize("algo", G1_WALK.algorithms)
def test_every_algorithm_simulates_the_same_scene(algo: str) -> None:
    """So that a policy can be played in the environment of another."""
    task = G1_WALK.build(algo)

    assert task.make_scene().mjcf == G1_WALK.build("ppo").build_scene(1.0 / 150.0, SceneSettings()).mjcf
