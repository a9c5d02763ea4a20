"""A configuration as plain data and back, and every way in which a user's values can be wrong."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from application.config import Choices, from_values, replaceable_paths, to_values
from application.overrides import apply_overrides, leaf_paths
from application.settings import RuntimeSettings
from application.tasks.cartpole import SWINGUP
from application.tasks.registry import TASKS
from application.tasks.task import TaskEntry
from domain.errors import ConfigurationError
from domain.learning.config import SacCfg
from domain.managers.buffers import DelayCfg
from domain.managers.noise import GaussianNoise
from tests.support.many_options import MANY_OPTIONS

CHOICES = Choices(algo="ppo", sim="mujoco", device="cpu")
ENTRIES = [*TASKS.values(), MANY_OPTIONS]


def plain(entry: TaskEntry = MANY_OPTIONS) -> dict[str, Any]:
    return to_values(entry.build("ppo"), CHOICES)


def with_set(*overrides: str) -> Any:
    paths = replaceable_paths(MANY_OPTIONS.build("ppo"))
    return from_values(MANY_OPTIONS, apply_overrides(plain(), overrides, replaceable=paths)).task


@pytest.mark.parametrize(
    ("entry", "algo"),
    [(entry, algo) for entry in ENTRIES for algo in entry.algorithms],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_values_survive_yaml_and_the_way_back(entry: TaskEntry, algo: str) -> None:
    values = to_values(entry.build(algo), replace(CHOICES, algo=algo))

    saved = yaml.safe_load(yaml.safe_dump(values, sort_keys=False))

    assert saved == values
    assert from_values(entry, saved).values == values
    assert from_values(entry, saved).task.learner == entry.build(algo).learner


def test_a_resolved_task_keeps_functions_and_declared_types() -> None:
    task = with_set()

    declared = MANY_OPTIONS.build("ppo")
    assert task.env.rewards["posture"].func is declared.env.rewards["posture"].func
    assert task.env.rewards["posture"].params == declared.env.rewards["posture"].params
    assert task.env.observations == {
        name: type(group)(
            enable_corruption=group.enable_corruption,
            terms={
                term: type(cfg)(**{**vars(cfg), "params": {"asset": None, "biased": False, **cfg.params}})
                for term, cfg in group.terms.items()
            },
        )
        for name, group in declared.env.observations.items()
    }


NUMBERS = [
    path
    for path in leaf_paths(plain())
    if path.endswith((".weight", ".std", ".params.gain", ".params.force")) or path in ("env.sim_dt", "ppo.desired_kl")
]


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_set_of_numbers_round_trips(data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from(NUMBERS), unique=True))
    numbers = {path: data.draw(st.floats(1e-6, 1e6)) for path in paths}
    scalars = {path: number for path, number in numbers.items() if not path.endswith(".std")}

    values = apply_overrides(plain(), [f"{path}={number!r}" for path, number in scalars.items()])
    resolved = from_values(MANY_OPTIONS, values)

    assert resolved.values == values
    assert from_values(MANY_OPTIONS, yaml.safe_load(yaml.safe_dump(resolved.values))).values == values


def test_a_whole_number_becomes_the_declared_real_one() -> None:
    task = with_set("rewards.posture.weight=3", "actions.push.params.gain=2.5")

    assert isinstance(task.env.rewards["posture"].weight, float)
    assert task.env.actions["push"].params["gain"] == 2.5


def test_noise_and_delay_can_be_set_as_a_whole_or_switched_off() -> None:
    terms = "observations.actor.terms"
    task = with_set(
        f"{terms}.plain.noise={{kind: gaussian, std: 0.2}}",
        f"{terms}.plain.delay={{max_lag: 2}}",
        f"{terms}.uniform.noise=null",
        f"{terms}.uniform.clip=null",
        f"{terms}.late.delay=null",
        f"{terms}.biased.noise.bias.value=0.3",
    )

    found = task.env.observations["actor"].terms
    assert found["plain"].noise == GaussianNoise(std=0.2)
    assert found["plain"].delay == DelayCfg(max_lag=2)
    assert (found["uniform"].noise, found["uniform"].clip, found["late"].delay) == (None, None, None)
    assert found["biased"].noise.bias.value == 0.3


def test_every_axis_of_a_pose_can_be_set() -> None:
    task = with_set("events.place.params.pose.yaw=[-3, 3]")

    assert task.env.events["place"].params["pose"]["yaw"] == (-3.0, 3.0)
    assert task.env.events["place"].params["pose"]["z"] == (0.0, 0.0)


def test_a_key_may_hold_dots() -> None:
    task = with_set("rewards.tracking.params.widths..*_hip.x=0.7")

    assert task.env.rewards["tracking"].params["widths"] == {".*_hip.x": 0.7, ".*": 0.2}


WRONG = [
    ("ppo.learning_rate=-1", "ppo.learning_rate is -1: Input should be greater than 0"),
    ("ppo.learning_rate='1e-3'", 'ppo.learning_rate is "1e-3": give a number, without quotes'),
    ("ppo.learning_rate=nan", "ppo.learning_rate is"),
    ("ppo.epochs=2.5", "ppo.epochs is 2.5: "),
    ("ppo.epochs=true", "ppo.epochs is true: "),
    ("ppo.actor_hidden=[64, 0]", r"ppo.actor_hidden.1 is 0: "),
    ("ppo.activation=sine", 'ppo.activation is "sine": '),
    ("train.num_envs=0", "train.num_envs is 0: Input should be greater than 0"),
    ("train.num_envs='8'", 'train.num_envs is "8": give a number, without quotes'),
    ("train.cpu_ids=[-1]", "train.cpu_ids.0 is -1: "),
    ("env.sim_dt=0", "env.sim_dt is 0.0: give a finite number of seconds above 0"),
    ("env.decimation=1.5", "env.decimation is 1.5: give a whole number"),
    ("env.decimation=true", "env.decimation is true: give a whole number"),
    ("env.decimation=0", "env.decimation is 0: it is at least 1"),
    ("env.scale_rewards_by_dt=1", "env.scale_rewards_by_dt is 1: give true or false"),
    ("rewards.posture.weight='1'", 'rewards.posture.weight is "1": write the number without quotes'),
    ("rewards.posture.weight=heavy", 'rewards.posture.weight is "heavy": give a number'),
    ("rewards.posture.weight=1e999", "rewards.posture.weight is inf: give a finite number"),
    ("rewards.posture.weight=true", "rewards.posture.weight is true: give a number"),
    ("rewards.posture.params.std=[1]", r"rewards.posture.params.std has 1 values: give 2"),
    ("rewards.posture.params.std=[1, x]", r'rewards.posture.params.std\[1\] is "x": give a number'),
    ("rewards.posture.params.mode=l3", "rewards.posture.params.mode: unknown choice 'l3': did you mean"),
    ("rewards.tracking.params.sigma=0", "rewards.tracking.params.sigma is 0.0, outside"),
    ("rewards.tracking.params.sensors=left", 'rewards.tracking.params.sensors is "left": give a list'),
    ("rewards.tracking.params.sensors=[1]", r"rewards.tracking.params.sensors\[0\] is 1: give a text"),
    ("commands.twist.params.lin_vel_x=[1, -1]", "commands.twist.params.lin_vel_x .* low is above high"),
    ("commands.twist.params.lin_vel_x=[nan, 1]", r"commands.twist.params.lin_vel_x\[0\] is "),
    ("commands.twist.params.lin_vel_x=[0, 1, 2]", "commands.twist.params.lin_vel_x has 3 values: give 2"),
    ("commands.twist.params.standing=1.5", "commands.twist.params.standing is 1.5, outside"),
    ("commands.twist.resampling_time_s=[9, 3]", "commands.twist.resampling_time_s .* low is above high"),
    ("observations.actor.terms.uniform.noise.low=0.5", "observations.actor.terms.uniform.noise is uniform from 0.5"),
    ("observations.actor.terms.uniform.noise.kind=x", "noise.kind: unknown choice 'x'"),
    ("observations.actor.terms.uniform.noise.operation=+", "noise.operation: unknown choice"),
    ("observations.actor.terms.uniform.clip=[1, 0]", "observations.actor.terms.uniform.clip .* low is above high"),
    ("observations.actor.terms.late.delay.min_lag=9", "observations.actor.terms.late.delay lags are 9 to 3"),
    ("observations.actor.terms.late.history_length=0", "late.history_length is 0: it is at least 1"),
    ("actions.push.delay.min_lag=3", "actions.push.delay lags are 3 to 2"),
    ("events.place.mode=interval", "events.place cannot run in mode interval: use reset"),
    ("events.shove.interval_s=null", "events.shove has mode interval: give interval_s, the seconds between"),
    ("events.place.interval_s=[1, 2]", "events.place: interval_s and is_global_time are for mode interval, not reset"),
    ("events.shove.min_steps_between_resets=3", "events.shove.min_steps_between_resets is a count of at least 0"),
    ("events.shove.interval_s=[2, 1]", "events.shove.interval_s .* low is above high"),
    ("metrics.seen.reduce=median", "metrics.seen.reduce: unknown choice 'median'"),
    ("scene.max_contacts=0", "scene.max_contacts is 0: Input should be greater than 0"),
    ("scene.max_contacts=8", "scene.* give scene.max_contacts and scene.max_constraints together"),
    ("scene.motions=squat", 'scene.motions is "squat": Input should be a valid tuple'),
    ("rewards.posture.params.asset.joints=knee", 'rewards.posture.params.asset.joints is "knee": give a list'),
]


@pytest.mark.parametrize(("override", "message"), WRONG, ids=[override for override, _ in WRONG])
def test_a_wrong_value_is_refused_with_its_path(override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        with_set(override)

    assert "\n" not in str(caught.value)


def test_a_saved_term_that_is_not_declared_is_named() -> None:
    values = plain()
    values["rewards"]["speed"] = copy.deepcopy(values["rewards"]["posture"])

    with pytest.raises(ConfigurationError, match=r"rewards.speed is not declared by task 'many_options'"):
        from_values(MANY_OPTIONS, values)


def test_a_declared_term_that_is_not_saved_is_named() -> None:
    values = plain()
    del values["observations"]["actor"]["terms"]["late"]

    with pytest.raises(ConfigurationError, match=r"observations.actor.terms.late is declared by task 'many_options'"):
        from_values(MANY_OPTIONS, values)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ppo.lam", "ppo.lam is missing"),
        ("env.decimation", "env.decimation is missing"),
        ("rewards.posture.weight", "rewards.posture.weight is missing"),
        ("rewards.posture.params.std", "rewards.posture.params.std is missing"),
        ("train", "train is missing"),
    ],
)
def test_a_missing_key_is_named(path: str, message: str) -> None:
    values = plain()
    *above, last = path.split(".")
    owner = values
    for name in above:
        owner = owner[name]
    del owner[last]

    with pytest.raises(ConfigurationError, match=message):
        from_values(MANY_OPTIONS, values)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema_version", 2, "schema_version is 2: this unilab reads 1"),
        ("task", "go2_flat", "task is 'go2_flat', and these values are for task 'many_options'"),
        ("algo", "dreamer", "unknown algorithm for task 'many_options' 'dreamer'"),
        ("algo", 5, "algo is 5: give a text"),
        ("extra", 1, "unknown key 'extra'"),
        ("ppo", [1], r"ppo is \[1\]: give a mapping"),
        ("rewards", None, "rewards is null: give a mapping"),
    ],
)
def test_a_wrong_root_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        from_values(MANY_OPTIONS, {**plain(), key: value})


SAC = to_values(SWINGUP.build("sac"), replace(CHOICES, algo="sac"))


def test_the_learner_s_section_has_the_algorithm_s_name_and_off_policy_ones_a_runtime() -> None:
    sections = {"train", "env", "actions", "rewards"}

    assert SAC.keys() >= sections | {"sac", "runtime"}
    assert "ppo" not in SAC
    assert plain().keys() >= sections | {"ppo"}
    assert "runtime" not in plain()


def test_off_policy_values_take_effect() -> None:
    values = apply_overrides(SAC, ["sac.actor_hidden=[32]", "sac.gamma=1", "runtime.trace=false"])

    task = from_values(SWINGUP, values).task

    declared = SWINGUP.build("sac").learner_as(SacCfg)
    assert task.off_policy == (
        replace(declared, actor_hidden=(32,), gamma=1.0),
        RuntimeSettings(trace=False),
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sac.batch_size='8'", 'sac.batch_size is "8": write the number without quotes'),
        ("sac.batch_size=8.5", "sac.batch_size is 8.5: give a whole number"),
        ("sac.batch_size=true", "sac.batch_size is true: give a whole number"),
        ("sac.batch_size=0", r"sac.batch_size is 0, outside \[1, inf\): give at least 1"),
        ("sac.batch_size=1000000", r"sac.batch_size is 1000000, above sac.replay_rows \(524288\)"),
        ("sac.learning_start_rows=1000000", "sac.learning_start_rows is 1000000, above sac.replay_rows"),
        ("sac.gamma=1.5", r"sac.gamma is 1.5, outside \(0, 1\]"),
        ("sac.gamma=inf", "sac.gamma is"),
        ("sac.v_min=7", r"sac.v_min is 7.0, not below sac.v_max \(6.0\)"),
        ("sac.actor_hidden=[]", r"sac.actor_hidden is \(\): give at least one whole number"),
        ("sac.actor_hidden=[64, 0]", "sac.actor_hidden is 0, outside"),
        ("sac.actor_hidden=64", "sac.actor_hidden is 64: give a list"),
        ("sac.obs_normalization=1", "sac.obs_normalization is 1: give true or false"),
        ("runtime.precision=float16", 'runtime.precision is "float16": '),
        ("runtime.log_interval=0", "runtime.log_interval is 0: "),
        ("runtime.tick_timeout_s='60'", 'runtime.tick_timeout_s is "60": give a number, without quotes'),
        ("runtime.graph=1", "runtime.graph is 1: "),
        ("ppo.learning_rate=1", "unknown key 'ppo.learning_rate'"),
        ("sac.batchsize=1", "unknown key 'sac.batchsize': did you mean 'sac.batch_size'"),
    ],
)
def test_a_wrong_off_policy_value_is_refused_with_its_path(override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        from_values(SWINGUP, apply_overrides(SAC, [override]))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sac": {**SAC["sac"], "extra": 1}}, "sac: unknown key 'extra'"),  # type: ignore[dict-item]
        ({"sac": {}}, "sac.batch_size is missing"),
        ({"runtime": {}}, "runtime.start_timeout_s is missing"),
        ({"runtime": [1]}, r"runtime is \[1\]: give a mapping"),
        ({"ppo": {}}, "unknown key 'ppo'"),
        ({"algo": "td3"}, "unknown key 'sac'"),
        ({"training": {"num_gpus": 2}}, "training.num_gpus does not exist here"),
        ({"train": {**SAC["train"], "sync_mode": "x"}}, "train.sync_mode does not exist here"),  # type: ignore[dict-item]
    ],
)
def test_a_wrong_off_policy_section_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        from_values(SWINGUP, {**SAC, **changes})


@pytest.mark.parametrize(
    ("task", "action", "bound"), [("cartpole_swingup", "effort", 1.0), ("go2_flat", "joint_pos", 1.6)]
)
def test_a_run_saved_before_a_parameter_existed_takes_what_is_declared(task: str, action: str, bound: float) -> None:
    values: Any = to_values(TASKS[task].build("ppo"), CHOICES)
    del values["actions"][action]["params"]["bounds"]

    resolved = from_values(TASKS[task], values)

    assert resolved.task.env.actions[action].params["bounds"] == (-bound, bound)


def test_bounds_of_an_action_can_be_set_and_are_checked() -> None:
    wide = from_values(SWINGUP, apply_overrides(SAC, ["actions.effort.params.bounds=[-2, 3]"]))

    assert wide.task.env.actions["effort"].params["bounds"] == (-2.0, 3.0)
    for pair, message in (("[1, -1]", "low is above high"), ("[1, 1]", "nothing lies between"), ("[1]", "1 values")):
        with pytest.raises(ConfigurationError, match=f"actions.effort.params.bounds .*{message}"):
            from_values(SWINGUP, apply_overrides(SAC, [f"actions.effort.params.bounds={pair}"]))


def test_a_scene_s_settings_take_effect_and_may_be_absent_in_a_saved_run() -> None:
    scene = with_set("scene.max_contacts=8", "scene.max_constraints=64", "scene.strict_buffers=true").scene

    assert (scene.max_contacts, scene.max_constraints, scene.strict_buffers) == (8, 64, True)
    old = plain()
    del old["scene"]
    assert from_values(MANY_OPTIONS, old).task.scene == MANY_OPTIONS.build("ppo").scene
