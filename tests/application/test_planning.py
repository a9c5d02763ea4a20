"""What is refused before anything is built, and what a plan holds."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from adapters.mjwarp.capabilities import CAPABILITIES as OF_MJWARP
from adapters.mujoco.capabilities import CAPABILITIES
from application.planning import (
    Request,
    Surroundings,
    fitting_simulators,
    learner_device,
    make_plan,
    resolve_device,
)
from application.tasks.registry import TASKS
from domain.errors import CapabilityError, ConfigurationError, DeviceError
from tests.support.many_options import MANY_OPTIONS


def surroundings(*, devices: Sequence[str] = ("cpu",), **changes: Any) -> Surroundings:
    capabilities = dataclasses.replace(CAPABILITIES, **changes)
    return Surroundings(
        tasks={**TASKS, "many_options": MANY_OPTIONS}, simulators={"mujoco": capabilities}, devices=devices
    )


def request(task: str = "go2_flat", **changes: Any) -> Request:
    return dataclasses.replace(Request(task=task, algo="ppo", sim="mujoco"), **changes)


def test_a_plan_holds_the_resolved_values_scene_and_device() -> None:
    settings = {"train.num_envs": 16}

    plan = make_plan(request(settings=settings, overrides=["rewards.action_rate.weight=-1"]), surroundings())

    assert plan.config.task.train.num_envs == 16
    assert plan.config.task.env.rewards["action_rate"].weight == -1.0
    assert plan.device == torch.device("cpu")
    assert plan.scene.index.timestep == plan.config.task.env.sim_dt


def test_playing_takes_a_task_s_values_for_evaluation_and_learning_does_not() -> None:
    entry = TASKS["go2_flat"]
    steady = {"events.reset_root.params.pose.x": (0.0, 0.0), "env.episode_length_s": 5.0}
    played = dataclasses.replace(entry, build=lambda algo: dataclasses.replace(entry.build(algo), evaluation=steady))
    around = dataclasses.replace(surroundings(), tasks={"go2_flat": played})

    plan = make_plan(request(settings={"env.episode_length_s": 7.0}), around)
    learns = make_plan(request(learns=True), around)

    assert plan.config.task.env.events["reset_root"].params["pose"]["x"] == (0.0, 0.0)
    assert plan.config.task.env.episode_length_s == 7.0
    assert learns.config.task.env.episode_length_s == 20.0


def test_saved_values_take_the_place_of_the_declaration() -> None:
    saved = make_plan(request(overrides=["env.decimation=3"]), surroundings()).config.values

    plan = make_plan(request(saved=saved, settings={"train.seed": 9}), surroundings())

    assert (plan.config.task.env.decimation, plan.config.task.train.seed) == (3, 9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "go2_flt"}, "unknown task 'go2_flt': did you mean 'go2_flat'"),
        ({"algo": "pp0"}, "unknown algorithm 'pp0': did you mean 'ppo'"),
        ({"algo": "appo"}, "algorithm 'appo' is not in this version"),
        ({"sim": "mujoko"}, r"unknown simulator 'mujoko': did you mean 'mujoco'. \(known: mujoco\)"),
        ({"overrides": ["training.num_gpus=2"]}, "training.num_gpus does not exist here"),
        ({"overrides": ["oops", "sync_mode=x"]}, "sync_mode does not exist here"),
        ({"saved": {"training": {"num_gpus": 2}}}, "training.num_gpus does not exist here"),
        ({"algo": "sac", "learns": True, "overrides": ["num_gpus=1"]}, "num_gpus does not exist here"),
        ({"algo": "sac", "learns": True, "task": "go2"}, "unknown task 'go2'"),
        ({"settings": {"train.num_envs": 0}}, "train.num_envs is 0"),
        ({"settings": {"train.seed": 1}, "overrides": ["train.seed=2"]}, "train.seed is set twice"),
    ],
)
def test_a_wrong_request_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_plan(request(**changes), surroundings())


def test_a_sensor_that_the_simulator_lacks_is_named_with_both() -> None:
    around = surroundings(sensor_types=CAPABILITIES.sensor_types - {"contact"})

    with pytest.raises(CapabilityError, match=r"task 'go2_flat' reads sensor '.*' of type contact.* 'mujoco'"):
        make_plan(request(), around)


def test_a_model_field_that_the_simulator_lacks_is_named_with_task_and_term() -> None:
    around = surroundings(model_fields=frozenset())

    with pytest.raises(CapabilityError, match=r"task 'many_options' varies body_mass .*events.place.* 'mujoco'"):
        make_plan(request("many_options"), around)


def test_only_simulators_that_fit_a_task_are_listed() -> None:
    weak = dataclasses.replace(CAPABILITIES, model_fields=frozenset())

    assert fitting_simulators(MANY_OPTIONS, {"weak": weak, "mujoco": CAPABILITIES}) == ["mujoco"]


@pytest.mark.parametrize(
    ("name", "devices", "found"),
    [
        ("auto", ["cpu"], "cpu"),
        ("auto", ["cpu", "mps"], "cpu"),
        ("auto", ["cpu", "cuda:0", "cuda:1"], "cuda:0"),
        ("cuda", ["cpu", "cuda:0"], "cuda:0"),
        ("cuda:1", ["cpu", "cuda:0", "cuda:1"], "cuda:1"),
        ("mps", ["cpu", "mps"], "mps"),
    ],
)
def test_a_device_is_found(name: str, devices: list[str], found: str) -> None:
    assert resolve_device(name, surroundings(devices=devices)) == found


def test_each_of_several_ranks_takes_its_own_cuda_device() -> None:
    around = dataclasses.replace(surroundings(devices=["cpu", "cuda:0", "cuda:1"]), world_size=2)

    assert resolve_device("auto", around) == "cuda"


@pytest.mark.parametrize("name", ["cuda", "cuda:3", "gpu", "xpu", "mps", "CPU", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(DeviceError, match=f"device '{name}' is not on this machine: use auto, cpu"):
        resolve_device(name, surroundings())


def test_several_ranks_are_refused_where_the_algorithm_has_one_device() -> None:
    entry = dataclasses.replace(MANY_OPTIONS, algorithms=("ppo", "sac"))
    around = dataclasses.replace(surroundings(), tasks={"many_options": entry}, world_size=2)

    with pytest.raises(ConfigurationError, match="algorithm 'sac' learns on one device and WORLD_SIZE is 2"):
        make_plan(request("many_options", algo="sac"), around)


@pytest.mark.parametrize(
    ("algo", "name", "devices", "found"),
    [
        ("ppo", "auto", ["cpu", "mps"], "cpu"),
        ("sac", "auto", ["cpu", "mps"], "mps"),
        ("sac", "auto", ["cpu", "cuda:0", "cuda:1"], "cuda:0"),
        ("td3", "cuda", ["cpu", "cuda:0", "mps"], "cuda:0"),
        ("td3", "cuda:1", ["cpu", "cuda:0", "cuda:1"], "cuda:1"),
        ("flashsac", "mps", ["cpu", "mps"], "mps"),
    ],
)
def test_an_off_policy_algorithm_learns_on_one_gpu(algo: str, name: str, devices: list[str], found: str) -> None:
    assert learner_device(algo, name, surroundings(devices=devices)) == found


@pytest.mark.parametrize(
    ("name", "devices", "message"),
    [
        ("auto", ["cpu"], "and Torch sees none here; 'unilab eval' plays its policies on any machine: use --algo ppo"),
        ("cpu", ["cpu"], "and Torch sees none here"),
        ("xpu", ["cpu"], "and Torch sees none here"),
        ("cpu", ["cpu", "cuda:0"], "and 'cpu' is none of those here; .*: use --device cuda:0$"),
        ("xpu", ["cpu", "mps"], "and 'xpu' is none of those here; .*: use --device mps$"),
        ("cuda", ["cpu", "mps"], "and 'cuda' is none of those here"),
        ("cuda:2", ["cpu", "cuda:0", "cuda:1"], "and 'cuda:2' is none of .*: use --device cuda:0 or cuda:1$"),
    ],
)
@pytest.mark.parametrize("algo", ["sac", "td3", "flashsac"])
def test_another_learner_device_is_refused_with_rule_reason_and_remedy(
    algo: str, name: str, devices: list[str], message: str
) -> None:
    """FR-74."""
    around = surroundings(devices=devices)
    rule = rf"algorithm '{algo}' learns on exactly one GPU \(CUDA, ROCm or MPS\), where its replay, .* stay, "

    with pytest.raises(DeviceError, match=rule + message) as caught:
        make_plan(request(algo=algo, device=name, learns=True), around)
    assert "\n" not in str(caught.value)


def with_mjwarp(*devices: str) -> Surroundings:
    around = surroundings(devices=devices)
    return dataclasses.replace(around, simulators={**around.simulators, "mjwarp": OF_MJWARP})


@pytest.mark.parametrize(
    ("algo", "devices", "name", "found"),
    [
        ("ppo", ("cpu", "cuda:0"), "auto", "cuda:0"),
        ("ppo", ("cpu", "cuda:0", "cuda:1"), "cuda:1", "cuda:1"),
        ("sac", ("cpu", "cuda:0", "mps"), "auto", "cuda:0"),
    ],
)
def test_a_simulator_on_the_device_trains_on_cuda(algo: str, devices: Sequence[str], name: str, found: str) -> None:
    plan = make_plan(request(algo=algo, sim="mjwarp", device=name, learns=True), with_mjwarp(*devices))

    assert plan.device == torch.device(found)


@pytest.mark.parametrize(
    ("changes", "devices", "message"),
    [
        ({"learns": True}, ("cpu",), "the device is cpu: use --sim mujoco"),
        ({"learns": True, "device": "cpu"}, ("cpu", "cuda:0"), "the device is cpu: use --sim mujoco"),
        ({"learns": True, "device": "mps"}, ("cpu", "mps"), "the device is mps; a policy also plays with --device cpu"),
        ({"device": "mps"}, ("cpu", "mps"), "the device is mps; a policy also plays with --device cpu"),
        ({"learns": True, "algo": "sac", "device": "mps"}, ("cpu", "mps"), "the device is mps"),
    ],
)
def test_a_simulator_on_the_device_is_refused_without_cuda_in_one_line(
    changes: dict[str, Any], devices: Sequence[str], message: str
) -> None:
    with pytest.raises(DeviceError, match=f"simulator 'mjwarp' trains on a CUDA GPU only.*{message}") as caught:
        make_plan(request(sim="mjwarp", **changes), with_mjwarp(*devices))
    assert "\n" not in str(caught.value)


def test_a_policy_plays_on_that_simulator_on_the_cpu() -> None:
    assert make_plan(request(sim="mjwarp"), with_mjwarp("cpu")).device == torch.device("cpu")


def test_a_policy_of_an_off_policy_run_plays_on_any_device() -> None:
    plan = make_plan(request(algo="sac"), surroundings())

    assert plan.device == torch.device("cpu")


def test_a_replay_that_does_not_hold_one_step_of_all_environments_is_refused_for_learning_only() -> None:
    around = surroundings(devices=["cpu", "cuda:0"])
    small = ["sac.replay_rows=1000", "sac.batch_size=8", "sac.learning_start_rows=8"]

    make_plan(request(algo="sac", overrides=small), around)
    with pytest.raises(ConfigurationError, match=r"train.num_envs is 1024, above sac.replay_rows \(1000\)"):
        make_plan(request(algo="sac", overrides=small, learns=True), around)


def test_a_run_that_ends_before_it_could_learn_is_refused() -> None:
    around = surroundings(devices=["cpu", "cuda:0"])
    short = ["train.num_envs=4", "train.iterations=300", "sac.learning_start_rows=1193", "sac.batch_size=8"]

    with pytest.raises(ConfigurationError, match=r"learning_start_rows is 1193, .*\(4\) collect 1192 in time"):
        make_plan(request(algo="sac", overrides=short, learns=True), around)
    short[2] = "sac.learning_start_rows=1192"
    make_plan(request(algo="sac", overrides=short, learns=True), around)
