"""A declared task that uses every kind of setting a configuration can hold; nothing of it is ever stepped."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from torch import Tensor

from application.robots import cartpole
from application.settings import PpoSettings, TrainSettings
from application.tasks.task import Task, TaskEntry
from domain.entity import EntitySelection, EntitySelector
from domain.env_cfg import EnvCfg
from domain.managers.action import ActionTermCfg
from domain.managers.buffers import DelayCfg
from domain.managers.command import CommandTermCfg
from domain.managers.curriculum import CurriculumTermCfg
from domain.managers.event import EventTermCfg
from domain.managers.metrics import MetricsTermCfg
from domain.managers.noise import BiasedNoise, ConstantNoise, GaussianNoise, UniformNoise
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.recorder import RecorderTermCfg
from domain.managers.reward import RewardTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.managers.terms import Fraction, PoseRanges, Positive, Range

LEGS = EntitySelector(joints=("left_.*", "right_.*"), preserve_order=True)


def push(env: Any, *, force: float, gain: Tensor) -> None:
    """Stand for an action term."""


def velocity(env: Any, *, lin_vel_x: Range, standing: Fraction, heading: Range | None = None) -> None:
    """Stand for a command term."""


def joints(env: Any, *, asset: EntitySelection | None = None, biased: bool = False) -> None:
    """Stand for an observation term."""


def posture(env: Any, *, std: Annotated[Tensor, "by joint"], asset: EntitySelection, mode: Literal["l1", "l2"]) -> None:
    """Stand for a reward term."""


def tracking(env: Any, *, sigma: Positive, sensors: tuple[str, ...], widths: Mapping[str, float]) -> None:
    """Stand for a reward term."""


class Place:
    """Stand for an event term that sets a pose."""

    modes = ("reset", "startup")
    required_fields = frozenset({"body_mass"})

    def __init__(self, env: Any, *, pose: PoseRanges, asset: EntitySelection) -> None: ...


class Stages:
    """Stand for a curriculum term."""

    def __init__(self, env: Any, *, target: str, stages: tuple[tuple[int, float], ...]) -> None: ...


def anything(env: Any) -> None:
    """Stand for a term without parameters."""


def _observations() -> dict[str, ObservationTermCfg]:
    uniform = UniformNoise(low=-0.1, high=0.1)
    return {
        "plain": ObservationTermCfg(func=joints),
        "uniform": ObservationTermCfg(func=joints, noise=uniform, clip=(-1.0, 1.0), scale=(1.0, 2.0)),
        "gaussian": ObservationTermCfg(func=joints, noise=GaussianNoise(std=(0.1, 0.2), clamp=3.0), scale=0.5),
        "biased": ObservationTermCfg(func=joints, noise=BiasedNoise(noise=uniform, bias=ConstantNoise(value=0.1))),
        "late": ObservationTermCfg(func=joints, params={"asset": LEGS}, delay=DelayCfg(max_lag=3), history_length=4),
    }


def _build(algo: str) -> Task:
    env = EnvCfg(
        sim_dt=0.01,
        decimation=4,
        episode_length_s=20.0,
        actions={"push": ActionTermCfg(func=push, params={"force": 10.0, "gain": 1}, delay=DelayCfg(max_lag=2))},
        commands={
            "twist": CommandTermCfg(
                func=velocity,
                resampling_time_s=(3.0, 8.0),
                params={"lin_vel_x": (-1.0, 1.0), "standing": 0.1},
            )
        },
        observations={
            "actor": ObservationGroupCfg(terms=_observations()),
            "critic": ObservationGroupCfg(terms={"plain": ObservationTermCfg(func=joints)}, enable_corruption=False),
        },
        rewards={
            "posture": RewardTermCfg(
                func=posture, weight=-1.0, params={"std": (0.1, 0.2), "asset": LEGS, "mode": "l2"}
            ),
            "tracking": RewardTermCfg(
                func=tracking,
                weight=2,
                params={"sensors": ("left", "right"), "sigma": 0.5, "widths": {".*_hip.x": 0.1, ".*": 0.2}},
            ),
        },
        terminations={"time_out": TerminationTermCfg(func=anything, time_out=True)},
        events={
            "place": EventTermCfg(
                func=Place, mode="reset", params={"pose": {"x": (-0.5, 0.5)}, "asset": EntitySelector()}
            ),
            "shove": EventTermCfg(func=anything, mode="interval", interval_s=(5.0, 10.0), is_global_time=True),
        },
        curricula={
            "harder": CurriculumTermCfg(
                func=Stages, params={"target": "rewards.tracking.weight", "stages": ((0, 1.0), (1000, 2.0))}
            )
        },
        metrics={"seen": MetricsTermCfg(func=anything, reduce="max")},
        recorders={"tape": RecorderTermCfg(func=anything)},
    )
    return Task(
        name="many_options",
        build_scene=lambda timestep, _: cartpole.build(timestep=timestep),
        env=env,
        train=TrainSettings(num_envs=8, iterations=10, cpu_ids=(0,)),
        learner=PpoSettings(),
    )


MANY_OPTIONS = TaskEntry(name="many_options", summary="Every kind of setting.", algorithms=("ppo",), build=_build)
