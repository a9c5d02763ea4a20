"""What works here, what each algorithm would run on, what is missing and how to get it: verdicts as data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from application.planning import AUTO, LATER_ALGORITHMS, OFF_POLICY_ALGORITHMS, Surroundings, learner_device
from application.system import Device, Processors, SystemProbe
from domain.errors import ConfigurationError, DeviceError
from domain.physics import Execution

State = Literal["ok", "missing", "note"]
REQUIRED = ("torch", "mujoco", "rsl-rl-lib", "tensordict", "pydantic", "pyyaml", "typer", "rich", "dependency-injector")
"""Distributions without which no run starts."""
OPTIONAL: Mapping[str, str] = {
    "tensorboard": "event files (--logger tensorboard)",
    "imageio": "videos",
    "imageio-ffmpeg": "videos",
}
"""Distributions and what they are for."""
_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One finding: ``missing`` keeps runs from starting, ``note`` only takes something away."""

    subject: str
    state: State
    detail: str
    remedy: str = ""
    """What to do about it; empty where all is well."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings by section, in order."""

    sections: Mapping[str, Sequence[Verdict]]

    @property
    def healthy(self) -> bool:
        """Whether runs can start."""
        return all(verdict.state != "missing" for verdicts in self.sections.values() for verdict in verdicts)


def diagnose(
    probe: SystemProbe, around: Surroundings, engines: Mapping[str, str], choose_display: Callable[[], str]
) -> Diagnosis:
    """Look at versions, devices, simulators, rendering and algorithms.

    Args:
        probe: Looks at the machine.
        around: Tasks, simulators and devices to choose from.
        engines: The distribution behind each simulator.
        choose_display: Returns the name of an OpenGL backend that draws, or raises ConfigurationError.
    """
    devices = probe.devices()
    return Diagnosis(
        sections={
            "versions": _versions(probe),
            "devices": [*_devices(devices, probe.processors()), *_absent_devices(devices)],
            "simulators": _simulators(around, probe.versions(list(engines.values())), engines),
            "rendering": [_rendering(choose_display)],
            "algorithms": _algorithms(around, probe),
        }
    )


def _versions(probe: SystemProbe) -> list[Verdict]:
    facts = probe.platform()
    found = [
        Verdict(subject="python", state="ok", detail=f"{facts['python']} on {facts['system']} {facts['machine']}"),
    ]
    versions = probe.versions(["unilab", *REQUIRED, *OPTIONAL])
    for name, version in versions.items():
        if version is not None:
            found.append(Verdict(subject=name, state="ok", detail=version))
        elif name == "unilab":
            found.append(
                Verdict(subject=name, state="note", detail="not installed, runs from its sources", remedy="make setup")
            )
        else:
            state: State = "missing" if name in REQUIRED else "note"
            purpose = f"absent, needed for {OPTIONAL[name]}" if name in OPTIONAL else "absent"
            found.append(Verdict(subject=name, state=state, detail=purpose, remedy=f"pip install {name}"))
    return found


def _devices(devices: Sequence[Device], processors: Processors) -> list[Verdict]:
    found = []
    for device in devices:
        memory = "" if device.memory_bytes is None else f", {device.memory_bytes / _GIB:.0f} GiB"
        count = f", {processors.usable} of {processors.total} CPUs usable" if device.name == "cpu" else ""
        found.append(Verdict(subject=device.name, state="ok", detail=f"{device.description}{count}{memory}"))
    return found


def _absent_devices(devices: Sequence[Device]) -> list[Verdict]:
    if any(device.name != "cpu" for device in devices):
        return []
    remedy = "on an NVIDIA machine: check nvidia-smi, and install a CUDA build of Torch (TORCH_BACKEND=auto make setup)"
    return [Verdict(subject="gpu", state="note", detail="Torch sees none", remedy=remedy)]


def _simulators(around: Surroundings, versions: Mapping[str, str | None], engines: Mapping[str, str]) -> list[Verdict]:
    found = []
    cuda = any(device.startswith("cuda") for device in around.devices)
    for name, capabilities in around.simulators.items():
        engine = engines[name]
        host = capabilities.execution is Execution.HOST_BRIDGE
        if versions[engine] is None:
            # Runs need one simulator, and the one on the host works on any machine.
            state: State = "missing" if host else "note"
            remedy = f"pip install {engine}"
            found.append(Verdict(subject=name, state=state, detail=f"its engine {engine} is absent", remedy=remedy))
            continue
        where = "steps on CPU threads" if host else "steps on the learner's GPU"
        detail = f"{where}; {len(capabilities.sensor_types)} sensor types, "
        detail += f"{len(capabilities.model_fields)} model fields that may differ from env to env"
        fits = host or cuda
        note = "" if fits else ", and Torch sees none: here it plays policies on the CPU, slowly"
        found.append(Verdict(subject=name, state="ok" if fits else "note", detail=detail + note))
    return found


def _rendering(choose_display: Callable[[], str]) -> Verdict:
    try:
        return Verdict(subject="opengl", state="ok", detail=f"draws off screen with {choose_display()}")
    except ConfigurationError as error:
        what, _, remedy = str(error).rpartition(": ")
        return Verdict(subject="opengl", state="note", detail=f"no videos: {what}", remedy=remedy)


def _algorithms(around: Surroundings, probe: SystemProbe) -> list[Verdict]:
    here = sorted({algo for entry in around.tasks.values() for algo in entry.algorithms})
    later = [algo for algo in LATER_ALGORITHMS if algo not in here]
    return [
        *(_algorithm(algo, around, probe) for algo in here),
        *(Verdict(subject=algo, state="note", detail="not in this version") for algo in later),
    ]


def _algorithm(algo: str, around: Surroundings, probe: SystemProbe) -> Verdict:
    """Return the verdict that training would meet."""
    try:
        device = learner_device(algo, AUTO, around)
    except DeviceError as error:
        what, _, remedy = str(error).rpartition(": ")
        return Verdict(subject=algo, state="note", detail=what, remedy=remedy)
    usable = probe.processors().usable
    detail = f"learner on {device}, MuJoCo on {usable} CPU thread{'s' if usable != 1 else ''}"
    if algo in OFF_POLICY_ALGORITHMS:
        free = {"device": probe.free_memory(device), "shared": probe.shared_memory()}
        found = [f"{size / _GIB:.1f} GiB of {kind} memory" for kind, size in free.items() if size is not None]
        detail += f"; free: {', '.join(found)}" if found else ""
    return Verdict(subject=algo, state="ok", detail=detail)
