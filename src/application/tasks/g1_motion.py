"""Unitree G1 with 29 joints, following a reference motion with its whole body.

Terms and their values: public unilab 1.5.2 (``g1_motion_tracking``, owners on MuJoCo of PPO, SAC and FlashSAC); TD3,
which has no owner there, takes FlashSAC's environment. Off-policy settings: ``off_policy_owners``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from application.robots import g1
from application.robots.scene import SceneModel
from application.settings import PpoSettings, SceneSettings, TrainSettings
from application.tasks.off_policy_owners import owner_of
from application.tasks.task import Owner, Task, TaskEntry
from domain.entity import EntitySelector
from domain.env_cfg import EnvCfg
from domain.managers.action import ActionTermCfg
from domain.managers.command import CommandTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.noise import UniformNoise
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions, observations, randomization, resets, rewards, terminations
from domain.motion import observations as motion_observations
from domain.motion import rewards as motion_rewards
from domain.motion import terminations as motion_ends
from domain.motion.command import MotionCommand

ALL = EntitySelector()
SIDES = ("left", "right")
LEG = ("hip_roll", "knee", "ankle_roll")
ARM = ("shoulder_roll", "elbow", "wrist_yaw")
ANCHOR = "torso_link"
BODIES = (
    "pelvis",
    *(f"{side}_{link}_link" for side in SIDES for link in LEG),
    ANCHOR,
    *(f"{side}_{link}_link" for side in SIDES for link in ARM),
)
END_EFFECTORS = tuple(f"{side}_{link}_link" for link in ("ankle_roll", "wrist_yaw") for side in SIDES)
HIGH_BODIES = tuple(body for body in BODIES if body not in END_EFFECTORS)
"""All that shall not touch the floor."""
SENSORS = ("pelvis_local_linvel", "torso_gyro")
MOTION = {"command": "motion"}
REACH = 2.0
"""How far a bounded policy can turn a joint from its default, rad: the published scale times tanh."""
# Of two geoms the one of higher priority gives a contact's friction (the spheres at a foot's corners), of equals the
# greater one (the floor's 1): drawn for the capsules alone it would hardly be felt.
FOOT_GEOMS = EntitySelector(geoms=(r"(left|right)_foot\d_collision", r"(left|right)_foot_contact_\d_geom"))
NOISE: Mapping[str, float] = MappingProxyType(
    {"base_lin_vel": 0.1, "base_ang_vel": 0.2, "joint_pos": 0.01, "joint_vel": 1.5}
)
"""Largest error of what the actor of an off-policy algorithm observes: m/s, rad/s, rad, rad/s."""


@dataclass(frozen=True, kw_only=True)
class _Values:
    """What differs between on-policy and off-policy environments."""

    action_scale: float
    """rad."""
    anchor_pos: float
    """Weight, as the next two."""
    body_pos: float
    joint_limit: float
    height_off: float
    """How far anchor and end effectors may be from their heights, m."""


ON_POLICY = _Values(action_scale=0.25, anchor_pos=0.5, body_pos=1.0, joint_limit=-10.0, height_off=0.25)
OFF_POLICY = _Values(action_scale=2.0, anchor_pos=1.0, body_pos=2.0, joint_limit=-2.0, height_off=0.5)
PPO = Owner(
    train=TrainSettings(num_envs=1024, iterations=15_000, save_interval=500), learner=PpoSettings(entropy_coef=0.005)
)


def _command(algo: str) -> CommandTermCfg:
    turn, shift = (-0.1, 0.1), (-0.05, 0.05)
    params = {
        "bodies": BODIES,
        "anchor": ANCHOR,
        "sampling": "adaptive",
        "pose": {"x": shift, "y": shift, "z": (-0.01, 0.01), "roll": turn, "pitch": turn, "yaw": (-0.2, 0.2)},
        "velocity": _shove(),
        "joint_pos": (-0.1, 0.1),
        "truncate_on_clip_end": algo != "ppo",
    }
    return CommandTermCfg(func=MotionCommand, resampling_time_s=None, params=params)


def _shove() -> dict[str, tuple[float, float]]:
    """Return ranges of a sudden change of the root's velocity, m/s and rad/s."""
    plane, lean = (-0.5, 0.5), (-0.52, 0.52)
    return {"x": plane, "y": plane, "z": (-0.2, 0.2), "roll": lean, "pitch": lean, "yaw": (-0.78, 0.78)}


def _actor(algo: str) -> dict[str, ObservationTermCfg]:
    terms = {
        "command": ObservationTermCfg(func=observations.generated_command, params=MOTION),
        "motion_anchor_pos_b": ObservationTermCfg(func=motion_observations.motion_anchor_pos_b, params=MOTION),
        "motion_anchor_ori_b": ObservationTermCfg(func=motion_observations.motion_anchor_ori_b, params=MOTION),
        "base_lin_vel": ObservationTermCfg(func=observations.sensor, params={"sensor": "pelvis_local_linvel"}),
        "base_ang_vel": ObservationTermCfg(func=observations.sensor, params={"sensor": "torso_gyro"}),
        "joint_pos": ObservationTermCfg(
            func=observations.joint_pos_rel, params={"joints": ALL, "biased": algo == "sac"}
        ),
        "joint_vel": ObservationTermCfg(func=observations.joint_vel_rel, params={"joints": ALL}),
        "actions": ObservationTermCfg(func=observations.last_action),
    }
    if algo == "ppo":
        return terms
    noisy = {name: replace(terms[name], noise=UniformNoise(low=-most, high=most)) for name, most in NOISE.items()}
    return {**terms, **noisy}


def _critic(algo: str) -> dict[str, ObservationTermCfg]:
    terms = {name: replace(term, noise=None) for name, term in _actor(algo).items()}
    if algo == "sac":
        # Without the encoders' error, and at another place than the actor has it.
        joint_pos = terms.pop("joint_pos")
        terms["joint_pos"] = replace(joint_pos, params={"joints": ALL, "biased": False})
    terms |= {
        "body_pos": ObservationTermCfg(func=motion_observations.robot_body_pos_b, params=MOTION),
        "body_ori": ObservationTermCfg(func=motion_observations.robot_body_ori_b, params=MOTION),
    }
    return terms if algo == "ppo" else {**terms, "sac_base_lin_vel": terms["base_lin_vel"]}


def _rewards(algo: str, values: _Values) -> dict[str, RewardTermCfg]:
    tracking = {
        "motion_global_root_pos": (motion_rewards.track_anchor_pos, values.anchor_pos, 0.3),
        "motion_global_root_ori": (motion_rewards.track_anchor_ori, 0.5, 0.4),
        "motion_body_pos": (motion_rewards.track_body_pos, values.body_pos, 0.3),
        "motion_body_ori": (motion_rewards.track_body_ori, 1.0, 0.4),
        "motion_body_lin_vel": (motion_rewards.track_body_lin_vel, 1.0, 1.0),
        "motion_body_ang_vel": (motion_rewards.track_body_ang_vel, 1.0, 3.14),
        "motion_joint_pos": (motion_rewards.track_joint_pos, 0.0, 0.2),
        "motion_joint_vel": (motion_rewards.track_joint_vel, 0.0, 1.0),
    }
    terms = {
        name: RewardTermCfg(func=func, weight=weight, params={**MOTION, "std": std})
        for name, (func, weight, std) in tracking.items()
    }
    terms["action_rate_l2"] = RewardTermCfg(func=rewards.action_rate_l2, weight=-0.1)
    terms["joint_limit"] = RewardTermCfg(
        func=rewards.joint_limit_violation_l2, weight=values.joint_limit, params={"joints": ALL}
    )
    if algo != "ppo":
        low = {**MOTION, "bodies": HIGH_BODIES, "height": 0.05}
        terms["undesired_contacts"] = RewardTermCfg(func=motion_rewards.BodiesBelow, weight=-0.1, params=low)
    return terms


def _terminations(algo: str, values: _Values) -> dict[str, TerminationTermCfg]:
    far = {**MOTION, "limit": values.height_off}
    terms = {
        "time_out": TerminationTermCfg(func=terminations.time_out, time_out=True),
        "anchor_pos": TerminationTermCfg(func=motion_ends.anchor_height_off, params=far),
        "anchor_ori": TerminationTermCfg(func=motion_ends.anchor_tilt_off, params={**MOTION, "limit": 0.8}),
        "ee_body_pos": TerminationTermCfg(func=motion_ends.BodyHeightOff, params={**far, "bodies": END_EFFECTORS}),
    }
    if algo != "ppo":
        terms["motion_clip_end"] = TerminationTermCfg(func=motion_ends.clip_end, params=MOTION, time_out=True)
    return terms


def _events(algo: str) -> dict[str, EventTermCfg]:
    if algo != "sac":
        return {}
    side = (-0.05, 0.05)
    offset = {"offset": {"x": (-0.025, 0.025), "y": side, "z": side}, "bodies": EntitySelector(bodies=(ANCHOR,))}
    friction = {"friction": (0.3, 1.2), "geoms": FOOT_GEOMS, "shared": True}
    return {
        "torso_com": EventTermCfg(func=randomization.RandomizeBodyCom, mode="reset", params=offset),
        "encoder_bias": EventTermCfg(
            func=resets.RandomizeEncoderBias, mode="reset", params={"bias": (-0.01, 0.01), "joints": ALL}
        ),
        "foot_friction": EventTermCfg(func=randomization.RandomizeGeomFriction, mode="reset", params=friction),
        "push": EventTermCfg(
            func=resets.PushRoot,
            mode="interval",
            interval_s=(1.0, 3.0),
            is_global_time=True,
            params={"velocity": _shove()},
        ),
    }


def _scene(timestep: float, settings: SceneSettings) -> SceneModel:
    return g1.build(timestep=timestep, sensors=SENSORS, bodies=BODIES, mesh_dir=settings.mesh_dir)


def _build(algo: str) -> Task:
    values = ON_POLICY if algo == "ppo" else OFF_POLICY
    reach = REACH / values.action_scale
    scale = {"joints": ALL, "scale": values.action_scale, "bounds": (-reach, reach)}
    env = EnvCfg(
        sim_dt=1.0 / 150.0,
        decimation=3,
        episode_length_s=10.0,
        actions={"joint_pos": ActionTermCfg(func=actions.JointPositionAction, params=scale)},
        commands={"motion": _command(algo)},
        observations={
            "actor": ObservationGroupCfg(terms=_actor(algo)),
            "critic": ObservationGroupCfg(terms=_critic(algo), enable_corruption=False),
        },
        rewards=_rewards(algo, values),
        terminations=_terminations(algo, values),
        events=_events(algo),
    )
    owner = owner_of("g1_motion", algo, PPO)
    return Task(
        name="g1_motion",
        build_scene=_scene,
        env=env,
        train=owner.train,
        learner=owner.learner,
        runtime=owner.runtime,
        scene=SceneSettings(motions=("builtin:squat",)),
        # Played from its beginning, and how it goes must not move where training would start.
        evaluation={
            "commands.motion.params.sampling": "clip_start",
            "commands.motion.params.collect_statistics": False,
        },
    )


G1_MOTION = TaskEntry(
    name="g1_motion",
    summary="Unitree G1 follows a reference motion with its whole body.",
    algorithms=("ppo", "sac", "td3", "flashsac"),
    build=_build,
)
