"""The G1 motion task in steps: what randomisation changes, how a clip's end ends, and what steps hand to the host."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from application.tasks.g1_motion import G1_MOTION
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.managers.observation import ObservationGroupCfg
from domain.motion.command import MotionCommand
from tests.support.host_sync import ForbidHostSync
from tests.support.standing import standing_clip, standing_env

ALGORITHMS = ("ppo", "sac", "td3", "flashsac")


class NeverSkips(MujocoBackend):
    """The engine with a device backend's answer: masked work always runs."""

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        return may_wait and super().skips(mask)


def exact_start(algo: str) -> EnvCfg:
    """Put the robot exactly on the first frame of its motion, without staggering, events or noise."""
    cfg = G1_MOTION.build(algo).env
    command = cfg.commands["motion"]
    params = {**command.params, "sampling": "start", "pose": {}, "velocity": {}, "joint_pos": (0.0, 0.0)}
    groups = {name: ObservationGroupCfg(terms=g.terms, enable_corruption=False) for name, g in cfg.observations.items()}
    return replace(
        cfg,
        commands={"motion": replace(command, params=params)},
        observations=groups,
        events={},
        stagger_episodes=False,
    )


def motion_of(env: ManagerBasedRlEnv) -> MotionCommand:
    return env.view.command_term("motion", MotionCommand)


def columns(env: ManagerBasedRlEnv, group: str, term: str) -> slice:
    names = list(env.observations.layout[group].items())
    at = [name for name, _ in names].index(term)
    first = sum(width for _, width in names[:at])
    return slice(first, first + names[at][1])


@pytest.fixture(scope="module")
def randomised() -> ManagerBasedRlEnv:
    env = standing_env("sac", 64)
    env.reset()
    return env


def field(env: ManagerBasedRlEnv, name: str) -> Tensor:
    return env.state_dict()[f"writes/fields/{name}"]


def test_each_row_has_one_friction_for_all_of_its_feet_and_the_rest_keeps_its_own(
    randomised: ManagerBasedRlEnv,
) -> None:
    sliding = field(randomised, "geom_friction")[..., 0]
    geoms = randomised.view.index.geoms
    feet = [i for i, name in enumerate(geoms) if "foot" in name]
    others = [i for i in range(len(geoms)) if i not in feet]

    drawn = sliding[:, feet]

    assert len(feet) == 2 * (7 + 4)
    assert torch.equal(drawn, drawn[:, :1].expand_as(drawn))
    assert 0.3 <= float(drawn.min()) < 0.4
    assert 1.1 < float(drawn.max()) <= 1.2
    assert torch.equal(sliding[:, others], sliding[:1, others].expand(64, -1))
    torsion = field(randomised, "geom_friction")[..., 1:]
    assert torch.equal(torsion, torsion[:1].expand_as(torsion))


def test_only_the_torsos_centre_of_mass_moves_within_its_ranges(randomised: ManagerBasedRlEnv) -> None:
    nominal = randomised.view.writes.model_field("body_ipos")
    moved = field(randomised, "body_ipos") - nominal
    torso = randomised.view.index.bodies.index("torso_link")

    most = moved[:, torso].abs().amax(dim=0)

    assert bool((most <= torch.tensor([0.025, 0.05, 0.05]) + 1e-6).all())
    assert bool((most > torch.tensor([0.02, 0.04, 0.04])).all())
    moved[:, torso] = 0.0
    assert not moved.any()


def test_encoders_err_by_a_hundredth_at_most_and_the_actor_sees_it(randomised: ManagerBasedRlEnv) -> None:
    bias = randomised.view.entity("robot").encoder_bias

    assert float(bias.abs().max()) <= 0.01
    assert float(bias.std(dim=0).min()) > 0.004

    cfg = exact_start("sac")
    env = standing_env(
        "sac", 4, cfg=replace(cfg, events={"encoder_bias": G1_MOTION.build("sac").env.events["encoder_bias"]})
    )
    seen = env.reset()
    difference = (
        seen["actor"][:, columns(env, "actor", "joint_pos")] - seen["critic"][:, columns(env, "critic", "joint_pos")]
    )
    torch.testing.assert_close(difference, env.view.entity("robot").encoder_bias, atol=1e-6, rtol=0)
    assert float(difference.abs().min()) > 0.0


def test_a_push_comes_to_all_rows_at_once_every_one_to_three_seconds() -> None:
    cfg = exact_start("flashsac")
    push = G1_MOTION.build("sac").env.events["push"]
    env = standing_env("flashsac", 4, cfg=replace(cfg, events={"push": push}))
    env.reset()
    timer = [value for name, value in env.state_dict().items() if name.startswith("events/push")]

    assert push.interval_s == (1.0, 3.0)
    (time_left,) = timer
    assert torch.equal(time_left, time_left[:1].expand_as(time_left))
    assert 1.0 <= float(time_left[0]) <= 3.0


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_robot_that_stands_as_its_motion_does_earns_nearly_all(algo: str) -> None:
    env = standing_env(algo, 2, cfg=exact_start(algo))
    env.reset()

    reward = env.step(torch.zeros(2, 29)).reward

    best = sum(term.weight for term in env.cfg.rewards.values() if term.weight > 0.0)
    assert best == (5.0 if algo == "ppo" else 6.5)
    assert reward.tolist() == pytest.approx([best * 0.02] * 2, rel=0.02)


@pytest.mark.parametrize("algo", ["sac", "td3", "flashsac"])
def test_the_end_of_a_clip_truncates_and_does_not_fail(algo: str) -> None:
    env = standing_env(algo, 2, cfg=exact_start(algo))
    env.reset()
    motion_of(env).frame[0] = 57

    results = [env.step(torch.zeros(2, 29)) for _ in range(3)]

    assert [result.truncated.tolist() for result in results] == [[False, False], [False, False], [True, False]]
    assert not any(bool(result.terminated.any()) for result in results)
    assert motion_of(env).frame.tolist() == [0, 3]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_targets_are_there_straight_after_a_reset_and_the_first_step_ends_few(algo: str) -> None:
    """FR-09."""
    env = standing_env(algo, 16, cfg=replace(G1_MOTION.build(algo).env, stagger_episodes=False))
    env.reset()
    motion = motion_of(env)
    pos, quat = motion.relative_pos.clone(), motion.relative_quat.clone()

    # What a step would derive from the same state.
    motion.advance()
    assert torch.equal(motion.relative_pos, pos)
    assert torch.equal(motion.relative_quat, quat)
    torch.testing.assert_close(torch.linalg.vector_norm(quat, dim=-1), torch.ones(16, 14))
    heights = motion.body_pos[..., 2]
    assert torch.equal(pos[..., 2], heights)
    assert float(heights.min()) > 0.02
    torch.testing.assert_close(pos[:, motion.bodies.index("torso_link"), :2], motion.robot_anchor_pos[:, :2])

    result = env.step(torch.zeros(16, 29))

    assert int((result.terminated | result.truncated).sum()) <= 2


def test_ppo_starts_anew_after_the_last_frame_within_the_episode() -> None:
    env = standing_env("ppo", 2, cfg=exact_start("ppo"))
    env.reset()
    motion_of(env).frame[0] = 58

    results = [env.step(torch.zeros(2, 29)) for _ in range(2)]

    assert not any(bool((result.truncated | result.terminated).any()) for result in results)
    assert motion_of(env).frame.tolist() == [0, 2]
    assert env.view.episode_length.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("algo", "lift", "ends"), [("ppo", 0.2, False), ("ppo", 0.3, True), ("sac", 0.45, False), ("sac", 0.55, True)]
)
def test_a_robot_far_above_its_motion_has_failed(algo: str, lift: float, ends: bool) -> None:
    env = standing_env(algo, 1, cfg=exact_start(algo))
    env.reset()
    everyone, robot, writes = torch.ones(1, dtype=torch.bool), env.view.entity("robot"), env.view.writes
    writes.begin_step()
    with writes.transaction(everyone, "test"):
        pose = writes.root_pose(robot).clone()
        pose[:, 2] += lift
        writes.write_root_pose(robot, pose, everyone)
    writes.commit()

    assert env.step(torch.zeros(1, 29)).terminated.tolist() == [ends]


def _device_like(algo: str, num_envs: int) -> ManagerBasedRlEnv:
    task = G1_MOTION.build(algo)
    backend = NeverSkips(task.make_scene(), num_envs)
    return ManagerBasedRlEnv(task.env, backend, seed=1, clips=[standing_clip(backend)])


@pytest.mark.parametrize("build", [standing_env, _device_like])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_steps_and_resets_keep_all_data_on_the_device(
    algo: str, build: Callable[[str, int], ManagerBasedRlEnv]
) -> None:
    env = build(algo, 4)
    env.reset()
    env.view.episode_length[:2] = 497
    motion_of(env).frame[2:] = 58
    generator = torch.Generator().manual_seed(1)

    with ForbidHostSync():
        for _ in range(6):
            result = env.step(0.1 * torch.randn(4, 29, generator=generator))
        env.reset(torch.arange(4) % 2 == 0)

    assert bool(torch.isfinite(result.reward).all())


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_random_actions_give_finite_numbers_and_end_episodes(algo: str) -> None:
    env = standing_env(algo, 8)
    env.reset()
    generator = torch.Generator().manual_seed(3)
    ended = torch.zeros(8, dtype=torch.bool)

    for _ in range(100):
        result = env.step(torch.rand(8, 29, generator=generator) * 2.0 - 1.0)
        ended |= result.terminated | result.truncated
        seen = [*result.observations.values(), *result.final_observations.values(), result.reward.unsqueeze(1)]
        assert all(bool(torch.isfinite(value).all()) for value in seen)

    assert bool(ended.any())
    assert not env.drain_faults().counts.any()
