"""Unitree G1 on flat ground, following a planar velocity command at a walk.

Terms and their values: public unilab 1.5.2 (``g1_walk_flat``, owners on MuJoCo), one set for PPO and one for the
off-policy algorithms. Rewards are in ``g1_walk_rewards``; off-policy training in ``off_policy_owners``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import Tensor

from application.robots import g1
from application.settings import PpoSettings, TrainSettings
from application.tasks import g1_walk_rewards
from application.tasks.off_policy_owners import owner_of
from application.tasks.task import Owner, Task, TaskEntry
from domain.entity import EntitySelector
from domain.env_cfg import EnvCfg
from domain.locomotion import gait
from domain.managers.action import ActionTermCfg
from domain.managers.command import CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.noise import UniformNoise
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions, commands, observations, randomization, resets, terminations

ALL = EntitySelector()
PPO = Owner(train=TrainSettings(num_envs=2048, iterations=2_200, save_interval=100), learner=PpoSettings())
REACH = 1.0
"""How far a bounded policy can turn a joint from its default, rad: the published scale times tanh."""
SCALES: Mapping[str, float] = {"base_ang_vel": 0.25, "joint_vel": 0.05, "base_lin_vel": 2.0}
"""Of observations, off-policy; actor and critic."""
NOISES: Mapping[str, float] = {"joint_pos": 0.01, "joint_vel": 0.1}
"""Largest noise, off-policy, before scales; actor only, as PPO's."""
PPO_NOISES: Mapping[str, float] = {
    "base_ang_vel": 0.2,
    "projected_gravity": 0.05,
    "joint_pos": 0.01,
    "joint_vel": 1.5,
}


def _observations(scales: Mapping[str, float], noises: Mapping[str, float]) -> dict[str, ObservationGroupCfg]:
    terms: dict[str, tuple[Callable[..., Tensor], dict[str, object]]] = {
        "base_ang_vel": (observations.sensor, {"sensor": "torso_gyro"}),
        "projected_gravity": (observations.projected_gravity_from_up_sensor, {"sensor": "torso_upvector"}),
        "joint_pos": (observations.joint_pos_rel, {"joints": ALL}),
        "joint_vel": (observations.joint_vel_rel, {"joints": ALL}),
        "actions": (observations.last_action, {}),
        "command": (observations.generated_command, {"command": "twist"}),
        "gait_phase": (observations.generated_command, {"command": "gait"}),
        "base_lin_vel": (observations.sensor, {"sensor": "pelvis_local_linvel"}),
    }
    critic = {
        name: ObservationTermCfg(func=func, params=params, scale=scales.get(name, 1.0))
        for name, (func, params) in terms.items()
    }
    actor = {name: term for name, term in critic.items() if name != "base_lin_vel"}
    actor |= {name: replace(actor[name], noise=UniformNoise(low=-most, high=most)) for name, most in noises.items()}
    return {
        "actor": ObservationGroupCfg(terms=actor),
        "critic": ObservationGroupCfg(terms=critic, enable_corruption=False),
    }


def _commands() -> dict[str, CommandTermCfg]:
    twist = {
        "lin_vel_x": (-0.6, 1.0),
        "lin_vel_y": (-0.4, 0.4),
        "ang_vel_z": (-0.8, 0.8),
        "standing_share": 0.0,
        "min_speed": 0.2,
        "lin_vel_sensor": "pelvis_local_linvel",
        "ang_vel_sensor": "torso_gyro",
    }
    walk = {"frequency": 1.5, "offsets": (0.0, 0.5), "random_start": True, "radians": True}
    return {
        "twist": CommandTermCfg(func=commands.UniformVelocityCommand, resampling_time_s=(20.0, 20.0), params=twist),
        "gait": CommandTermCfg(func=gait.GaitClock, resampling_time_s=None, params=walk),
    }


def _terminations(max_tilt: float, min_height: float) -> dict[str, TerminationTermCfg]:
    """Return the ends of an episode: ``max_tilt`` of the torso in degrees, ``min_height`` of the pelvis in m."""
    tilt = {"sensor": "torso_upvector", "limit": math.radians(max_tilt)}
    return {
        "time_out": TerminationTermCfg(func=terminations.time_out, time_out=True),
        "tilt": TerminationTermCfg(func=terminations.up_vector_tilted, params=tilt),
        "base_height": TerminationTermCfg(func=terminations.base_height_below, params={"minimum": min_height}),
    }


def _events() -> dict[str, EventTermCfg]:
    shove = (-0.5, 0.5)
    root = {
        "pose": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-math.pi, math.pi)},
        "velocity": {"x": shove, "y": shove, "z": shove, "roll": shove, "pitch": shove, "yaw": shove},
    }
    gains = {"kp": (0.9, 1.1), "kd": (0.9, 1.1), "operation": "scale", "actuators": ALL}
    return {
        "reset_root": EventTermCfg(func=resets.ResetRootUniform, mode="reset", params=root),
        "pd_gains": EventTermCfg(func=randomization.RandomizePdGains, mode="reset", params=gains),
    }


def _action(scale: float) -> dict[str, ActionTermCfg]:
    params = {"joints": ALL, "scale": scale, "bounds": (-REACH / scale, REACH / scale)}
    return {"joint_pos": ActionTermCfg(func=actions.JointPositionAction, params=params)}


def _build(algo: str) -> Task:
    off_policy = algo != "ppo"
    env = EnvCfg(
        sim_dt=1.0 / 150.0,
        decimation=3,
        episode_length_s=20.0,
        actions=_action(1.0 if off_policy else 0.25),
        commands=_commands(),
        observations=_observations(SCALES, NOISES) if off_policy else _observations({}, PPO_NOISES),
        rewards=g1_walk_rewards.off_policy(algo) if off_policy else g1_walk_rewards.on_policy(),
        terminations=_terminations(65.0, 0.3) if off_policy else _terminations(25.0, 0.55),
        events=_events(),
        curricula=g1_walk_rewards.penalty_scaling() if off_policy else {},
    )
    owner = owner_of("g1_walk", algo, PPO)
    return Task(
        name="g1_walk",
        build_scene=lambda timestep, scene: g1.build(timestep=timestep, mesh_dir=scene.mesh_dir),
        env=env,
        train=owner.train,
        learner=owner.learner,
        runtime=owner.runtime,
    )


G1_WALK = TaskEntry(
    name="g1_walk",
    summary="Unitree G1 (29 joints) walks after a planar velocity command on flat ground.",
    algorithms=("ppo", "sac", "td3", "flashsac"),
    build=_build,
)
