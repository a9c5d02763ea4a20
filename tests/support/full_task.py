"""An environment on the fake backend that uses every kind of manager, noise, delay, event and command at once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from domain.entity import EntitySelector
from domain.env import ManagerBasedRlEnv, StepResult
from domain.env_cfg import EnvCfg
from domain.locomotion.gait import GaitClock
from domain.locomotion.rewards import FeetContactMatchesGait, SwingFeetHeight
from domain.managers.action import ActionTermCfg
from domain.managers.buffers import DelayCfg
from domain.managers.command import CommandTermCfg
from domain.managers.curriculum import CurriculumTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.metrics import MetricsTermCfg
from domain.managers.noise import BiasedNoise, ConstantNoise, GaussianNoise, UniformNoise
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions, commands, curricula, observations, randomization, resets, rewards, terminations
from domain.mdp.balance import upright_and_centered
from domain.view import EnvView
from tests.support.fake_backend import FakeBackend

ALL = EntitySelector()
HIP = EntitySelector(joints=("hip",))
KNEE = EntitySelector(joints=("knee",))
WIDE = (-0.5, 0.5)
FEET = {"clock": "gait", "stance": 0.6}
CONTACTS = ("left_contact", "right_contact")
POSITIONS = ("left_pos", "right_pos")


def knee_angle(env: EnvView) -> Tensor:
    """A metric, rad."""
    return env.entity("robot").joint_pos[:, 1].clone()


def _actions() -> dict[str, ActionTermCfg]:
    legs = EntitySelector(joints=("hip", "knee"))
    foot = EntitySelector(joints=("ankle",))
    return {
        "legs": ActionTermCfg(
            func=actions.JointPositionAction,
            params={"joints": legs, "scale": (0.5, 0.25), "clip": (-2.0, 2.0)},
            delay=DelayCfg(max_lag=2),
        ),
        "foot": ActionTermCfg(func=actions.JointVelocityAction, params={"joints": foot, "scale": 1.0}),
    }


def _commands() -> dict[str, CommandTermCfg]:
    twist = {
        "lin_vel_x": (-1.0, 1.0),
        "lin_vel_y": WIDE,
        "ang_vel_z": WIDE,
        "heading": (-3.0, 3.0),
        "heading_share": 0.5,
        "heading_stiffness": 0.5,
        "standing_share": 0.2,
        "min_speed": 0.1,
        "lin_vel_sensor": "linvel",
        "ang_vel_sensor": "gyro",
    }
    gait = {"frequency": 2.0, "offsets": (0.0, 0.5), "random_start": True}
    pose = {"pose": {"x": WIDE, "yaw": WIDE}}
    return {
        "twist": CommandTermCfg(func=commands.UniformVelocityCommand, params=twist, resampling_time_s=(0.05, 0.3)),
        "gait": CommandTermCfg(func=GaitClock, params=gait, resampling_time_s=(0.2, 0.2)),
        "pose": CommandTermCfg(func=commands.UniformPoseCommand, params=pose, resampling_time_s=(0.1, 0.4)),
    }


def _actor() -> dict[str, ObservationTermCfg]:
    small = UniformNoise(low=-0.1, high=0.1)
    return {
        "gyro": ObservationTermCfg(
            func=observations.sensor,
            params={"sensor": "gyro"},
            noise=GaussianNoise(std=0.1, clamp=2.0),
            clip=(-5.0, 5.0),
        ),
        "up": ObservationTermCfg(
            func=observations.projected_gravity_from_up_sensor,
            params={"sensor": "upvector"},
            noise=UniformNoise(operation="scale", low=0.9, high=1.1),
        ),
        "gravity": ObservationTermCfg(func=observations.projected_gravity, delay=DelayCfg(min_lag=1, max_lag=3)),
        "joint_pos": ObservationTermCfg(
            func=observations.joint_pos_rel,
            params={"joints": ALL, "biased": True},
            noise=BiasedNoise(noise=small, bias=GaussianNoise(std=0.05)),
            history_length=3,
        ),
        "joint_vel": ObservationTermCfg(
            func=observations.joint_vel_rel,
            params={"joints": ALL},
            noise=BiasedNoise(noise=ConstantNoise(value=0.0), bias=small, shared=True),
            scale=(0.1, 0.2, 0.3),
            delay=DelayCfg(max_lag=2, hold_probability=0.3, update_period=3),
            history_length=2,
        ),
        "cos_sin": ObservationTermCfg(
            func=observations.joint_pos_cos_sin,
            params={"joints": HIP},
            noise=ConstantNoise(operation="abs", value=(0.5, 0.25)),
            delay=DelayCfg(max_lag=1, shared=True),
        ),
        "lin_vel": ObservationTermCfg(func=observations.base_lin_vel),
        "ang_vel": ObservationTermCfg(func=observations.base_ang_vel),
        "height": ObservationTermCfg(func=observations.base_height),
        "action": ObservationTermCfg(func=observations.last_action),
        "twist": ObservationTermCfg(func=observations.generated_command, params={"command": "twist"}),
        "gait": ObservationTermCfg(func=observations.generated_command, params={"command": "gait"}),
        "pose": ObservationTermCfg(func=observations.generated_command, params={"command": "pose"}),
    }


def _rewards() -> dict[str, RewardTermCfg]:
    def term(func: Any, weight: float, **params: object) -> RewardTermCfg:
        return RewardTermCfg(func=func, weight=weight, params=params)

    return {
        "alive": term(rewards.alive, 1.0),
        "failed": term(rewards.terminated, -5.0),
        "lin_vel": term(rewards.track_planar_velocity, 1.0, command="twist", sensor="linvel", sigma=0.5),
        "yaw": term(rewards.track_yaw_rate, 0.5, command="twist", sensor="gyro", sigma=0.5),
        "vertical": term(rewards.vertical_velocity_l2, -1.0, sensor="linvel"),
        "roll_pitch": term(rewards.roll_pitch_rate_l2, -0.1, sensor="gyro"),
        "height": term(rewards.base_height_l2, -1.0, target=0.5),
        "flat": term(rewards.flat_orientation_l2, -1.0, sensor="upvector"),
        "action_rate": term(rewards.action_rate_l2, 0.0),
        "action_jerk": term(rewards.action_acceleration_l2, -0.01),
        "deviation": term(rewards.joint_deviation_l1, -0.1, joints=ALL),
        "joint_vel": term(rewards.joint_velocity_l2, -0.01, joints=ALL),
        "limits": term(rewards.joint_limit_violation, -1.0, joints=ALL),
        "joint_acc": term(rewards.JointAccelerationL2, -1e-4, joints=ALL),
        "contact": term(FeetContactMatchesGait, 0.2, sensors=CONTACTS, threshold=0.5, **FEET),
        "swing": term(SwingFeetHeight, 0.3, sensors=POSITIONS, target=0.1, sigma=0.01, **FEET),
        "balance": term(upright_and_centered, 0.1, cart=HIP, pole=KNEE, position_margin=1.0, velocity_margin=5.0),
    }


def _events() -> dict[str, EventTermCfg]:
    def term(func: Any, mode: Any, params: Mapping[str, object], **settings: Any) -> EventTermCfg:
        return EventTermCfg(func=func, mode=mode, params=params, **settings)

    push = {"velocity": {"x": WIDE, "y": WIDE, "yaw": WIDE}}
    return {
        "mass": term(randomization.RandomizeBodyMass, "startup", {"mass": (-0.2, 0.5), "bodies": ALL}),
        "com": term(randomization.RandomizeBodyCom, "startup", {"offset": {"x": (-0.1, 0.1)}, "bodies": ALL}),
        "friction": term(
            randomization.RandomizeGeomFriction, "reset", {"friction": (0.5, 1.5), "geoms": ALL, "shared": True}
        ),
        "armature": term(
            randomization.RandomizeJointArmature,
            "reset",
            {"armature": (0.5, 2.0), "joints": ALL, "distribution": "log_uniform"},
            min_steps_between_resets=5,
        ),
        "gains": term(
            randomization.RandomizePdGains,
            "reset",
            {"kp": (0.9, 1.1), "kd": (0.9, 1.1), "actuators": ALL, "operation": "scale"},
        ),
        "root": term(
            resets.ResetRootUniform,
            "reset",
            {"pose": {"x": WIDE, "yaw": (-3.0, 3.0), "roll": (-0.2, 0.2)}, "velocity": {"z": WIDE, "yaw": WIDE}},
        ),
        "joints": term(resets.ResetJointsUniform, "reset", {"position": WIDE, "velocity": WIDE, "joints": ALL}),
        "bias": term(resets.RandomizeEncoderBias, "reset", {"bias": (-0.05, 0.05), "joints": ALL}),
        "push": term(resets.PushRoot, "interval", push, interval_s=(0.05, 0.2)),
        "gust": term(resets.PushRoot, "interval", push, interval_s=(0.17, 0.17), is_global_time=True),
    }


def full_cfg() -> EnvCfg:
    """Return the configuration; episodes last 40 steps of 0.02 s at most."""
    critic = {name: replace(term, noise=None) for name, term in _actor().items()}
    stages = (
        ("rewards.action_rate.weight", ((20, -0.01), (60, -0.02))),
        ("commands.twist.params.lin_vel_x", ((30, (-2.0, 2.0)),)),
        ("observations.actor.terms.gyro.noise.std", ((40, 0.3),)),
    )
    return EnvCfg(
        sim_dt=0.01,
        decimation=2,
        episode_length_s=0.8,
        actions=_actions(),
        commands=_commands(),
        observations={
            "actor": ObservationGroupCfg(terms=_actor()),
            "critic": ObservationGroupCfg(terms=critic, enable_corruption=False),
        },
        rewards=_rewards(),
        terminations={
            "time_out": TerminationTermCfg(func=terminations.time_out, time_out=True),
            "tilt": TerminationTermCfg(func=terminations.bad_orientation, params={"limit": 1.0}),
            "low": TerminationTermCfg(func=terminations.base_height_below, params={"minimum": 0.2}),
            "stretch": TerminationTermCfg(
                func=terminations.joint_pos_outside, params={"joints": KNEE, "bounds": (-0.75, 0.4)}
            ),
        },
        events=_events(),
        curricula={
            path.replace(".", "_"): CurriculumTermCfg(
                func=curricula.StagedParameter, params={"target": path, "stages": values}
            )
            for path, values in stages
        },
        metrics={
            f"knee_{kind}": MetricsTermCfg(func=knee_angle, reduce=kind) for kind in ("mean", "sum", "max", "last")
        },
    )


def full_env(num_envs: int = 6, *, device_like: bool = False, seed: int = 3) -> ManagerBasedRlEnv:
    """Build the environment and start all rows."""
    env = ManagerBasedRlEnv(full_cfg(), FakeBackend(num_envs, device_like=device_like), seed=seed)
    env.reset()
    return env


def drive(env: ManagerBasedRlEnv, steps: int, *, start: int = 0) -> list[StepResult]:
    """Step with actions that depend on the step's number alone."""
    results = []
    for i in range(start, start + steps):
        generator = torch.Generator().manual_seed(i)
        results.append(env.step(torch.randn(env.num_envs, env.actions.dim, generator=generator)))
    return results
