"""Verdicts about a machine that is described, not looked at."""

from collections.abc import Sequence

from adapters.mujoco.capabilities import CAPABILITIES
from application.doctor import Diagnosis, Verdict, diagnose
from application.planning import Surroundings
from application.system import Commit, Device, Processors
from application.tasks.registry import TASKS
from domain.errors import ConfigurationError

CPU = Device(name="cpu", description="x86_64", memory_bytes=16 << 30)
GPU = Device(name="cuda:0", description="H200", memory_bytes=None)


class Machine:
    """A SystemProbe with the given devices and without the given packages."""

    def __init__(self, devices: Sequence[Device] = (CPU,), without: Sequence[str] = ()) -> None:
        self._devices = devices
        self._without = without

    def versions(self, packages: Sequence[str]) -> dict[str, str | None]:
        return {name: None if name in self._without else "1.0" for name in packages}

    def platform(self) -> dict[str, str]:
        return {"system": "Linux", "release": "6", "machine": "x86_64", "python": "3.11.7"}

    def devices(self) -> Sequence[Device]:
        return self._devices

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


def test_a_missing_display_library_takes_videos_away_and_no_more() -> None:
    found = diagnosis(Machine(), display=None)

    verdict = find(found, "rendering", "opengl")
    assert found.healthy
    assert (verdict.state, verdict.remedy) == ("note", "install 'libegl1'")


def test_algorithms_of_later_versions_are_named() -> None:
    assert find(diagnosis(Machine()), "algorithms", "flashsac").detail == "not in this version"
