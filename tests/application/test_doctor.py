"""Verdicts about a machine that is described, not looked at."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from adapters.mujoco.capabilities import CAPABILITIES
from application.doctor import Diagnosis, Verdict, diagnose
from application.planning import Request, Surroundings, make_plan
from application.system import Commit, Device, Processors
from application.tasks.registry import TASKS
from domain.errors import ConfigurationError, DeviceError
from domain.physics import Execution

CPU = Device(name="cpu", description="x86_64", memory_bytes=16 << 30)
GPU = Device(name="cuda:0", description="H200", memory_bytes=None)


class Machine:
    """A SystemProbe with the given devices and without the given packages."""

    def __init__(
        self, devices: Sequence[Device] = (CPU,), without: Sequence[str] = (), shared: int | None = 1 << 29
    ) -> None:
        self._devices = devices
        self._shared = shared
        self._without = without

    def versions(self, packages: Sequence[str]) -> dict[str, str | None]:
        return {name: None if name in self._without else "1.0" for name in packages}

    def platform(self) -> dict[str, str]:
        return {"system": "Linux", "release": "6", "machine": "x86_64", "python": "3.11.7"}

    def devices(self) -> Sequence[Device]:
        return self._devices

    def free_memory(self, device: str) -> int | None:
        return 6 << 30 if device == "cuda:0" else None

    def shared_memory(self) -> int | None:
        return self._shared

    def processors(self) -> Processors:
        return Processors(total=8, usable=2)

    def commit(self) -> Commit | None:
        return None


def diagnosis(machine: Machine, display: str | None = "egl") -> Diagnosis:
    def choose_display() -> str:
        if display is None:
            raise ConfigurationError("cannot render: no OpenGL backend works: install 'libegl1'")
        return display

    devices = [device.name for device in machine.devices()]
    around = Surroundings(tasks=TASKS, simulators={"mujoco": CAPABILITIES}, devices=devices)
    return diagnose(machine, around, {"mujoco": "mujoco"}, choose_display)


def find(found: Diagnosis, section: str, subject: str) -> Verdict:
    return next(verdict for verdict in found.sections[section] if verdict.subject == subject)


def test_a_machine_without_a_gpu_can_train_and_is_told_where() -> None:
    found = diagnosis(Machine())

    assert found.healthy
    assert find(found, "algorithms", "ppo").detail == "learner on cpu, MuJoCo on 2 CPU threads"
    assert find(found, "devices", "cpu").detail == "x86_64, 2 of 8 CPUs usable, 16 GiB"
    assert find(found, "devices", "gpu").state == "note"


def test_a_gpu_is_where_the_learner_runs() -> None:
    found = diagnosis(Machine(devices=(CPU, GPU)))

    assert find(found, "algorithms", "ppo").detail.startswith("learner on cuda:0")
    assert all(verdict.subject != "gpu" for verdict in found.sections["devices"])


def test_a_missing_package_that_runs_need_is_named_with_its_remedy() -> None:
    found = diagnosis(Machine(without=("rsl-rl-lib", "imageio")))

    assert not found.healthy
    assert find(found, "versions", "rsl-rl-lib").remedy == "pip install rsl-rl-lib"
    assert (find(found, "versions", "imageio").state, find(found, "versions", "imageio").detail) == (
        "note",
        "absent, needed for videos",
    )


def test_a_simulator_without_its_engine_is_missing() -> None:
    verdict = find(diagnosis(Machine(without=("mujoco",))), "simulators", "mujoco")

    assert (verdict.state, verdict.detail) == ("missing", "its engine mujoco is absent")


def test_a_machine_without_the_gpu_s_simulator_can_still_train() -> None:
    simulators = {"mujoco": CAPABILITIES, "mjwarp": replace(CAPABILITIES, execution=Execution.DEVICE_RESIDENT)}
    around = Surroundings(tasks=TASKS, simulators=simulators, devices=["cpu"])
    engines = {"mujoco": "mujoco", "mjwarp": "mujoco-warp"}

    found = diagnose(Machine(without=("mujoco-warp",)), around, engines, lambda: "egl")

    verdict = find(found, "simulators", "mjwarp")
    assert (verdict.state, verdict.remedy) == ("note", "pip install mujoco-warp")
    assert found.healthy


def test_a_missing_display_library_takes_videos_away_and_no_more() -> None:
    found = diagnosis(Machine(), display=None)

    verdict = find(found, "rendering", "opengl")
    assert found.healthy
    assert (verdict.state, verdict.remedy) == ("note", "install 'libegl1'")


def test_algorithms_of_later_versions_are_named() -> None:
    assert find(diagnosis(Machine()), "algorithms", "appo").detail == "not in this version"


@pytest.mark.parametrize("algo", ["sac", "td3", "flashsac"])
def test_off_policy_algorithms_have_the_verdict_that_training_would_meet(algo: str) -> None:
    verdict = find(diagnosis(Machine()), "algorithms", algo)
    around = Surroundings(tasks=TASKS, simulators={"mujoco": CAPABILITIES}, devices=["cpu"])

    with pytest.raises(DeviceError) as caught:
        make_plan(Request(task="go2_flat", algo=algo, sim="mujoco", learns=True), around)
    assert (verdict.state, f"{verdict.detail}: {verdict.remedy}") == ("note", str(caught.value))


def test_off_policy_algorithms_tell_what_memory_is_free() -> None:
    mps = Device(name="mps", description="Apple GPU", memory_bytes=None)

    on_cuda = find(diagnosis(Machine(devices=(CPU, GPU))), "algorithms", "sac")
    on_mps = find(diagnosis(Machine(devices=(CPU, mps), shared=None)), "algorithms", "sac")

    assert on_cuda.detail == (
        "learner on cuda:0, MuJoCo on 2 CPU threads; free: 6.0 GiB of device memory, 0.5 GiB of shared memory"
    )
    assert (on_mps.state, on_mps.detail) == ("ok", "learner on mps, MuJoCo on 2 CPU threads")
