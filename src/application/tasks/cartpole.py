"""Cartpole: keep a pole upright, or swing it up first.

Figures, reward and PPO settings: mjlab 1.6.0 (``tasks/cartpole``), after dm_control; off-policy algorithms:
``off_policy_owners``.
"""

import math
from collections.abc import Mapping

from application.robots import cartpole
from application.settings import PpoSettings, TrainSettings
from application.tasks.off_policy_owners import owner_of
from application.tasks.task import Owner, Task, TaskEntry
from domain.entity import EntitySelector
from domain.env_cfg import EnvCfg
from domain.managers.action import ActionTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp import actions, observations, resets, terminations
from domain.mdp.balance import upright_and_centered

CART = EntitySelector(joints=("slider",))
POLE = EntitySelector(joints=("hinge_1",))
PPO = Owner(
    train=TrainSettings(num_envs=256, iterations=150),
    learner=PpoSettings(rollout_steps=32, actor_hidden=(64, 64), critic_hidden=(64, 64)),
)


def _observations() -> dict[str, ObservationTermCfg]:
    return {
        "cart_pos": ObservationTermCfg(func=observations.joint_pos_rel, params={"joints": CART}),
        "pole_angle": ObservationTermCfg(func=observations.joint_pos_cos_sin, params={"joints": POLE}),
        "cart_vel": ObservationTermCfg(func=observations.joint_vel_rel, params={"joints": CART}),
        "pole_vel": ObservationTermCfg(func=observations.joint_vel_rel, params={"joints": POLE}),
    }


def _task(name: str, algo: str, events: Mapping[str, EventTermCfg]) -> Task:
    env = EnvCfg(
        sim_dt=0.01,
        decimation=5,
        episode_length_s=50.0,
        actions={"effort": ActionTermCfg(func=actions.JointEffortAction, params={"joints": CART, "scale": 1.0})},
        observations={
            "actor": ObservationGroupCfg(terms=_observations()),
            "critic": ObservationGroupCfg(terms=_observations(), enable_corruption=False),
        },
        rewards={
            "upright": RewardTermCfg(
                func=upright_and_centered,
                weight=1.0,
                params={"cart": CART, "pole": POLE, "position_margin": 2.0, "velocity_margin": 5.0},
            )
        },
        terminations={"time_out": TerminationTermCfg(func=terminations.time_out, time_out=True)},
        events=events,
    )
    owner = owner_of(name, algo, PPO)
    return Task(
        name=name,
        build_scene=lambda timestep, _: cartpole.build(timestep=timestep),
        env=env,
        train=owner.train,
        learner=owner.learner,
        runtime=owner.runtime,
    )


def _reset(joints: EntitySelector, position: tuple[float, float]) -> EventTermCfg:
    params = {"position": position, "velocity": (-0.01, 0.01), "joints": joints}
    return EventTermCfg(func=resets.ResetJointsUniform, mode="reset", params=params)


def _balance(algo: str) -> Task:
    events = {"reset_cart": _reset(CART, (-0.1, 0.1)), "reset_pole": _reset(POLE, (-0.034, 0.034))}
    return _task("cartpole_balance", algo, events)


def _swingup(algo: str) -> Task:
    hanging = (math.pi - 0.034, math.pi + 0.034)
    events = {"reset_cart": _reset(CART, (0.0, 0.0)), "reset_pole": _reset(POLE, hanging)}
    return _task("cartpole_swingup", algo, events)


BALANCE = TaskEntry(
    name="cartpole_balance",
    summary="Keep a pole upright on a cart that starts near upright.",
    algorithms=("ppo", "sac", "td3", "flashsac"),
    build=_balance,
)
SWINGUP = TaskEntry(
    name="cartpole_swingup",
    summary="Swing a hanging pole up and keep it upright.",
    algorithms=("ppo", "sac", "td3", "flashsac"),
    build=_swingup,
)
