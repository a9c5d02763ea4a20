"""Rewards of the G1 walk task, and the curriculum of the off-policy ones.

Source:
    Public unilab 1.5.2, ``g1_walk_flat``: owners of PPO, SAC and FlashSAC on MuJoCo. TD3, which that version no longer
    has, takes those of SAC.
"""

from application.robots.g1 import FEET
from domain.entity import EntitySelector
from domain.locomotion import rewards as feet
from domain.managers.curriculum import CurriculumTermCfg
from domain.managers.reward import RewardTermCfg
from domain.mdp import curricula, rewards

ALL = EntitySelector()
CONTACTS = tuple(tuple(f"{foot}_foot_contact_{corner}" for corner in range(4)) for foot in FEET)
POSITIONS = tuple(f"{foot}_foot_pos" for foot in FEET)
ORIENTATIONS = tuple(f"{foot}_foot_quat" for foot in FEET)
SIGMA = 0.25
"""Of both tracking kernels, (m/s)^2 and (rad/s)^2."""
FOOT_PEAK = 0.09
"""Of the feet's sites in the world, m; a foot that stands has its own at about 0."""
STANDING_HEIGHT = 0.754
"""Of the pelvis, m."""


def on_policy() -> dict[str, RewardTermCfg]:
    """Return the terms of PPO."""
    linvel = {"sensor": "pelvis_local_linvel"}
    steps = {"sensors": CONTACTS, "threshold": 0.0, "window": (0.05, 0.5), "command": "twist", "min_command": 0.5}
    height = {"target": STANDING_HEIGHT}
    return {
        **_tracking(yaw_weight=0.2),
        "feet_phase": _feet_phase(1.0, sigma=0.008),
        "feet_air_time": RewardTermCfg(func=feet.FeetAirTime, weight=0.25, params=steps),
        "lin_vel_z": RewardTermCfg(func=rewards.vertical_velocity_l2, weight=-1.0, params=linvel),
        "ang_vel_xy": _roll_pitch_rate(-0.25),
        "base_height": RewardTermCfg(func=rewards.base_height_l2, weight=-500.0, params=height),
        "orientation": _orientation(-5.0),
        "action_rate": RewardTermCfg(func=rewards.action_rate_l2, weight=-0.01),
        "pose": _pose(-0.1, hip_roll=1.0),
    }


def off_policy(algo: str) -> dict[str, RewardTermCfg]:
    """Return the terms of an off-policy algorithm, with the weights that ``penalty_scaling`` scales."""
    flash = algo == "flashsac"
    flat = {"sensors": ORIENTATIONS}
    return {
        **_tracking(yaw_weight=1.5),
        "penalty_ang_vel_xy": _roll_pitch_rate(-1.0),
        "penalty_orientation": _orientation(-10.0),
        "penalty_action_rate": RewardTermCfg(func=rewards.action_rate_l2, weight=-5.0 if flash else -4.0),
        "pose": _pose(-0.5, hip_roll=2.0 if flash else 1.0),
        "penalty_feet_ori": RewardTermCfg(func=feet.FeetTiltL2, weight=-25.0 if flash else -20.0, params=flat),
        "feet_phase": _feet_phase(5.0, sigma=0.005 if flash else 0.04),
        "alive": RewardTermCfg(func=rewards.constant, weight=10.0),
    }


def penalty_scaling() -> dict[str, CurriculumTermCfg]:
    """Return the curriculum that starts with a sixteenth of the negative weights and goes up to an eighth."""
    params = {
        "start": 0.0625,
        "bounds": (0.0625, 0.125),
        "lengths": (150.0, 750.0),
        "factors": (0.999, 1.001),
        "window_share": 1000.0 / 4096.0,
    }
    return {"penalty_scaling": CurriculumTermCfg(func=curricula.PenaltyScaling, params=params)}


def _tracking(yaw_weight: float) -> dict[str, RewardTermCfg]:
    kernel = {"command": "twist", "sigma": SIGMA}
    return {
        "tracking_lin_vel": RewardTermCfg(
            func=rewards.track_planar_velocity, weight=2.0, params={"sensor": "pelvis_local_linvel", **kernel}
        ),
        "tracking_ang_vel": RewardTermCfg(
            func=rewards.track_yaw_rate, weight=yaw_weight, params={"sensor": "torso_gyro", **kernel}
        ),
    }


def _feet_phase(weight: float, sigma: float) -> RewardTermCfg:
    params = {
        "clock": "gait",
        "sensors": POSITIONS,
        "peak": FOOT_PEAK,
        "sigma": sigma,
        "velocity_sensor": "pelvis_local_linvel",
        "min_forward_speed": 0.0,
    }
    return RewardTermCfg(func=feet.FeetFollowHeightCurve, weight=weight, params=params)


def _roll_pitch_rate(weight: float) -> RewardTermCfg:
    return RewardTermCfg(func=rewards.roll_pitch_rate_l2, weight=weight, params={"sensor": "torso_gyro"})


def _orientation(weight: float) -> RewardTermCfg:
    return RewardTermCfg(func=rewards.flat_orientation_l2, weight=weight, params={"sensor": "torso_upvector"})


def _pose(weight: float, hip_roll: float) -> RewardTermCfg:
    """Hold arms and waist fast, let the legs swing forward: hip pitch, roll, yaw, knee, ankle pitch, roll."""
    leg = (0.01, hip_roll, 5.0, 0.01, 5.0, 5.0)
    upper_body = (50.0,) * 17
    return RewardTermCfg(
        func=rewards.JointDeviationL2, weight=weight, params={"joints": ALL, "weights": (*leg, *leg, *upper_body)}
    )
