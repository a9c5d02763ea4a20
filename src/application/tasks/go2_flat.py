"""Unitree Go2 on flat ground, following a planar velocity command at a trot.

Terms and their values: public unilab 1.5.2 (``go2_joystick_flat``, PPO owner on MuJoCo), whatever the algorithm;
PPO: a short sweep; off-policy algorithms: ``off_policy_owners``.
"""

from application.robots import go2
from application.settings import PpoSettings, TrainSettings
from application.tasks.off_policy_owners import owner_of
from application.tasks.task import Owner, Task, TaskEntry
from domain.entity import EntitySelector
from domain.env_cfg import EnvCfg
from domain.locomotion import gait
from domain.locomotion import rewards as gait_rewards
from domain.managers.action import ActionTermCfg
from domain.managers.command import CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions, commands, observations, randomization, resets, rewards, terminations

ALL = EntitySelector()
FEET = ("FL", "FR", "RL", "RR")
CONTACTS = tuple(f"{foot}_foot_contact" for foot in FEET)
POSITIONS = tuple(f"{foot}_pos" for foot in FEET)
SENSORS = ("gyro", "local_linvel", "upvector", *POSITIONS, *CONTACTS)
STANCE = 0.6
MAX_TILT = 1.0472
"""60 degrees, rad."""
BOUNDS = (-1.6, 1.6)
"""Times the scale 0.4 rad, as far as FlashSAC's owner reaches (scale 0.4). Within 0.25 rad the legs' lengths leave a
bounded policy 0.05 m to lift a foot, where ``swing_feet_z`` asks for 0.1 m; PPO is not bounded."""
# A third of the owner's update time on a CPU, and ahead of it at every iteration up to 600
# (benchmarks/results/go2_flat_ppo_sweep.jsonl); the owner has 512/256/128, std 0.5, rate 3e-4, entropy 1e-3.
HIDDEN = (256, 128, 64)
PPO = Owner(
    train=TrainSettings(num_envs=1024, iterations=151),
    learner=PpoSettings(obs_normalization=True, actor_hidden=HIDDEN, critic_hidden=HIDDEN),
)


def _observations() -> dict[str, ObservationTermCfg]:
    return {
        "base_ang_vel": ObservationTermCfg(func=observations.sensor, params={"sensor": "gyro"}),
        "projected_gravity": ObservationTermCfg(
            func=observations.projected_gravity_from_up_sensor, params={"sensor": "upvector"}
        ),
        "joint_pos": ObservationTermCfg(func=observations.joint_pos_rel, params={"joints": ALL}),
        "joint_vel": ObservationTermCfg(func=observations.joint_vel_rel, params={"joints": ALL}),
        "actions": ObservationTermCfg(func=observations.last_action),
        "command": ObservationTermCfg(func=observations.generated_command, params={"command": "twist"}),
        "gait_phase": ObservationTermCfg(func=observations.generated_command, params={"command": "gait"}),
    }


def _commands() -> dict[str, CommandTermCfg]:
    twist = {
        "lin_vel_x": (-0.6, 1.0),
        "lin_vel_y": (-0.4, 0.4),
        "ang_vel_z": (-0.8, 0.8),
        "standing_share": 0.0,
        "lin_vel_sensor": "local_linvel",
        "ang_vel_sensor": "gyro",
    }
    trot = {"frequency": 2.0, "offsets": (0.0, 0.5, 0.5, 0.0)}
    return {
        "twist": CommandTermCfg(func=commands.UniformVelocityCommand, resampling_time_s=(20.0, 20.0), params=twist),
        "gait": CommandTermCfg(func=gait.GaitClock, resampling_time_s=None, params=trot),
    }


def _rewards() -> dict[str, RewardTermCfg]:
    tracking = {"command": "twist", "sigma": 0.5}
    feet = {"clock": "gait", "stance": STANCE}
    return {
        "tracking_lin_vel": RewardTermCfg(
            func=rewards.track_planar_velocity, weight=1.0, params={"sensor": "local_linvel", **tracking}
        ),
        "tracking_ang_vel": RewardTermCfg(
            func=rewards.track_yaw_rate, weight=0.2, params={"sensor": "gyro", **tracking}
        ),
        "lin_vel_z": RewardTermCfg(func=rewards.vertical_velocity_l2, weight=-5.0, params={"sensor": "local_linvel"}),
        "ang_vel_xy": RewardTermCfg(func=rewards.roll_pitch_rate_l2, weight=-0.1, params={"sensor": "gyro"}),
        "base_height": RewardTermCfg(func=rewards.base_height_l2, weight=-100.0, params={"target": 0.3}),
        "action_rate": RewardTermCfg(func=rewards.action_rate_l2, weight=-0.005),
        "similar_to_default": RewardTermCfg(func=rewards.joint_deviation_l1, weight=-0.1, params={"joints": ALL}),
        "contact": RewardTermCfg(
            func=gait_rewards.FeetContactMatchesGait,
            weight=0.24,
            params={"sensors": CONTACTS, "threshold": 0.1, **feet},
        ),
        "swing_feet_z": RewardTermCfg(
            func=gait_rewards.SwingFeetHeight,
            weight=4.0,
            params={"sensors": POSITIONS, "target": 0.1, "sigma": 0.01, **feet},
        ),
    }


def _events() -> dict[str, EventTermCfg]:
    turn = 3.141592653589793
    shove = (-0.5, 0.5)
    root = {
        "pose": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": (-turn, turn)},
        "velocity": {"x": shove, "y": shove, "z": shove, "roll": shove, "pitch": shove, "yaw": shove},
    }
    gains = {"kp": (31.5, 38.5), "kd": (0.45, 0.55), "actuators": ALL}
    return {
        "reset_root": EventTermCfg(func=resets.ResetRootUniform, mode="reset", params=root),
        "pd_gains": EventTermCfg(func=randomization.RandomizePdGains, mode="reset", params=gains),
    }


def _build(algo: str) -> Task:
    policy = _observations()
    critic = {
        **policy,
        "base_lin_vel": ObservationTermCfg(func=observations.sensor, params={"sensor": "local_linvel"}),
    }
    env = EnvCfg(
        sim_dt=0.01,
        decimation=2,
        episode_length_s=20.0,
        actions={
            "joint_pos": ActionTermCfg(
                func=actions.JointPositionAction, params={"joints": ALL, "scale": 0.25, "bounds": BOUNDS}
            )
        },
        commands=_commands(),
        observations={
            "actor": ObservationGroupCfg(terms=policy),
            "critic": ObservationGroupCfg(terms=critic, enable_corruption=False),
        },
        rewards=_rewards(),
        terminations={
            "time_out": TerminationTermCfg(func=terminations.time_out, time_out=True),
            "bad_orientation": TerminationTermCfg(func=terminations.bad_orientation, params={"limit": MAX_TILT}),
        },
        events=_events(),
    )
    owner = owner_of("go2_flat", algo, PPO)
    return Task(
        name="go2_flat",
        build_scene=lambda timestep, _: go2.build(timestep=timestep, sensors=SENSORS),
        env=env,
        train=owner.train,
        learner=owner.learner,
        runtime=owner.runtime,
    )


GO2_FLAT = TaskEntry(
    name="go2_flat",
    summary="Unitree Go2 follows a planar velocity command on flat ground.",
    algorithms=("ppo", "sac", "td3", "flashsac"),
    build=_build,
)
