"""A small deterministic PhysicsBackend on CPU tensors: one free-floating robot with three hinges.

It follows the port to the letter (one read a step, sensors one substep old, one commit, views in place) and counts
what it is asked. ``device_like`` makes ``skips`` answer as a device-resident backend would.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor

from domain.errors import CapabilityError, DataError, SimulationError
from domain.physics import (
    Capabilities,
    EntityIndex,
    Execution,
    ModelIndex,
    SensorSlot,
    StateView,
    StateWrite,
)
from domain.rotations import quat_mul, quat_rotate, quat_rotate_inverse

JOINTS = ("hip", "knee", "ankle")
ACTUATORS = ("ankle_motor", "knee_motor", "hip_motor")
DEFAULT_JOINT_POS = (0.1, -0.2, 0.3)
DEFAULT_QPOS = (0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, *DEFAULT_JOINT_POS)
GAIN = 20.0
DAMPING = 1.0
SENSOR_SIZES = {
    "gyro": ("gyro", 3),
    "linvel": ("velocimeter", 3),
    "upvector": ("framezaxis", 3),
    "left_pos": ("framepos", 3),
    "right_pos": ("framepos", 3),
    "left_contact": ("contact", 1),
    "right_contact": ("contact", 1),
}
Break = Literal["nan", "reset"]


def fake_index(timestep: float = 0.01) -> ModelIndex:
    """Return names and addresses; actuators run in the opposite order of the joints."""
    sensors: dict[str, SensorSlot] = {}
    for name, (kind, dim) in SENSOR_SIZES.items():
        adr = sum(slot.dim for slot in sensors.values())
        sensors[name] = SensorSlot(name=name, type=kind, adr=adr, dim=dim)
    robot = EntityIndex(
        name="robot",
        joints=JOINTS,
        qpos_adr=7,
        dof_adr=6,
        joint_range=((-1.0, 1.0), (-2.0, 2.0), (-math.inf, math.inf)),
        default_joint_pos=DEFAULT_JOINT_POS,
        root_body="trunk",
        root_qpos_adr=0,
        root_dof_adr=0,
        bodies=("trunk", "thigh", "shank", "foot"),
        geoms=("trunk_box", "foot_ball"),
        sites=(),
        actuators=ACTUATORS,
        actuator_joint=("ankle", "knee", "hip"),
    )
    return ModelIndex(
        nq=10,
        nv=9,
        nu=3,
        nsensordata=sum(slot.dim for slot in sensors.values()),
        timestep=timestep,
        bodies=("world", *robot.bodies),
        joints=("root", *JOINTS),
        geoms=("floor", *robot.geoms),
        sites=(),
        actuators=ACTUATORS,
        sensors=sensors,
        default_qpos=DEFAULT_QPOS,
        entities={"robot": robot},
    )


def _nominal_fields() -> dict[str, Tensor]:
    gain, bias = torch.zeros(3, 10), torch.zeros(3, 10)
    gain[:, 0], bias[:, 1], bias[:, 2] = GAIN, -GAIN, -DAMPING
    return {
        "body_mass": torch.tensor([0.0, 5.0, 1.0, 0.5, 0.25]),
        "body_ipos": torch.zeros(5, 3),
        "geom_friction": torch.tensor([[1.0, 0.005, 0.0001]]).repeat(3, 1),
        "dof_armature": torch.tensor([0.0] * 6 + [0.1, 0.2, 0.3]),
        "actuator_gainprm": gain,
        "actuator_biasprm": bias,
    }


class FakeBackend:
    """Servo-driven hinges on a base that the joints drag along; every number follows from state and control.

    ``steps``, ``commits`` (those that did something) and ``reads`` count calls since construction.
    """

    def __init__(self, num_envs: int = 4, *, device_like: bool = False, timestep: float = 0.01) -> None:
        self._num_envs = num_envs
        self._device_like = device_like
        self._index = fake_index(timestep)
        self._qpos = torch.tensor([DEFAULT_QPOS], dtype=torch.float64).repeat(num_envs, 1)
        self._qvel = torch.zeros(num_envs, 9, dtype=torch.float64)
        self._sensordata = self._sense()
        self._nominal = _nominal_fields()
        self._effective = {name: value.expand(num_envs, *value.shape).clone() for name, value in self._nominal.items()}
        self._tables: dict[str, Tensor] = {}
        self._breaks: dict[tuple[int, int], Break] = {}
        self._state = StateView(
            qpos=torch.zeros(num_envs, 10),
            qvel=torch.zeros(num_envs, 9),
            sensordata=torch.zeros(num_envs, self._index.nsensordata),
            diverged=torch.zeros(num_envs, dtype=torch.bool),
        )
        self._control = torch.zeros(num_envs, 3)
        self.steps = self.commits = self.reads = 0
        self.is_closed = False
        self._read()
        self.reads = 0

    @property
    def num_envs(self) -> int:
        return self._num_envs

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def index(self) -> ModelIndex:
        return self._index

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            execution=Execution.DEVICE_RESIDENT if self._device_like else Execution.HOST_BRIDGE,
            model_fields=frozenset(self._nominal),
            sensor_types=frozenset(kind for kind, _ in SENSOR_SIZES.values()),
        )

    @property
    def state(self) -> StateView:
        return self._state

    @property
    def control(self) -> Tensor:
        return self._control

    def effective_field(self, name: str) -> Tensor:
        """Return the values that the physics really uses, (num_envs, ...)."""
        return self._effective[name]

    def break_row(self, row: int, step: int, how: Break = "nan") -> None:
        """Make ``row`` diverge in the ``step``-th step: its qvel turns NaN, or the engine resets it by itself."""
        self._breaks[row, step] = how

    def model_field(self, name: str) -> Tensor:
        if name not in self._nominal:
            raise CapabilityError(f"the fake backend has no model field '{name}'")
        if name not in self._tables:
            self._tables[name] = self._effective[name].clone()
        return self._tables[name]

    def step(self, substeps: int) -> None:
        if not torch.isfinite(self._control).all():
            raise SimulationError("control is not finite")
        self.steps += 1
        for _ in range(substeps):
            self._sensordata = self._sense()
            self._integrate()
        broken = torch.zeros(self._num_envs, dtype=torch.bool)
        for (row, step), how in self._breaks.items():
            if step == self.steps:
                broken[row] = True
                self._qpos[row] = torch.tensor(DEFAULT_QPOS, dtype=torch.float64)
                self._qvel[row] = math.nan if how == "nan" else 0.0
        self._read()
        finite = torch.isfinite(torch.cat((self._state.qpos, self._state.qvel, self._state.sensordata), dim=1))
        self._state.diverged.copy_(broken | ~finite.all(dim=1))

    def commit(self, write: StateWrite) -> None:
        rows = write.written | write.reset
        changed = {name: mask for name, mask in write.fields.items() if mask.any()}
        if not rows.any() and not changed:
            return
        self.commits += 1
        for name, mask in changed.items():
            self._effective[name][mask] = self._tables[name][mask]
        if rows.any():
            self._qpos[rows] = write.qpos[rows].double()
            self._qvel[rows] = write.qvel[rows].double()
            self._sensordata[rows] = self._sense()[rows]
            self._state.diverged[write.reset] = False
            self._read()

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        if self._device_like and not may_wait:
            return False
        return not bool(mask.any())

    def notice(self) -> str | None:
        return None

    def recording(self) -> AbstractContextManager[None]:
        if not self._device_like:
            raise CapabilityError("the fake backend is a host's")
        return nullcontext()

    def snapshot(self) -> dict[str, Tensor]:
        fields = {f"field/{name}": self._effective[name] for name in self._tables}
        return {name: value.clone() for name, value in {**self._saved(), **fields}.items()} | {
            "steps": torch.tensor(self.steps)
        }

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        for name, value in self._saved().items():
            if name not in snapshot or snapshot[name].shape != value.shape:
                raise DataError(f"the snapshot does not fit at '{name}'")
            value.copy_(snapshot[name])
        for name in self._tables:
            self._effective[name].copy_(snapshot[f"field/{name}"])
        self.steps = int(snapshot["steps"])

    def close(self) -> None:
        self.is_closed = True

    def _saved(self) -> dict[str, Tensor]:
        state = self._state
        return {
            "engine_qpos": self._qpos,
            "engine_qvel": self._qvel,
            "engine_sensordata": self._sensordata,
            "qpos": state.qpos,
            "qvel": state.qvel,
            "sensordata": state.sensordata,
            "diverged": state.diverged,
            "control": self._control,
        }

    def _integrate(self) -> None:
        dt = self._index.timestep
        joint_pos, joint_vel = self._qpos[:, 7:], self._qvel[:, 6:]
        gain = self._effective["actuator_gainprm"].double().flip(1)
        bias = self._effective["actuator_biasprm"].double().flip(1)
        target = self._control.double().flip(1)
        force = gain[..., 0] * target + bias[..., 1] * joint_pos + bias[..., 2] * joint_vel
        mass = self._effective["body_mass"].double().sum(dim=1, keepdim=True)
        friction = self._effective["geom_friction"].double()[:, 2, :1]
        self._qvel[:, 6:] = joint_vel + dt * force / (1.0 + self._effective["dof_armature"].double()[:, 6:])
        drag = torch.cat((friction, friction, torch.full_like(friction, 2.0)), dim=1)
        self._qvel[:, :3] += dt * (force / mass - drag * self._qvel[:, :3])
        self._qvel[:, 3:6] += dt * (0.5 * force / mass - self._qvel[:, 3:6])
        self._qpos[:, 7:] += dt * self._qvel[:, 6:]
        self._qpos[:, :3] += dt * self._qvel[:, :3]
        spin = torch.cat((torch.ones_like(mass), 0.5 * dt * self._qvel[:, 3:6]), dim=1)
        quat = quat_mul(self._qpos[:, 3:7], spin)
        self._qpos[:, 3:7] = quat / quat.norm(dim=1, keepdim=True)

    def _sense(self) -> Tensor:
        pos, quat, joints = self._qpos[:, :3], self._qpos[:, 3:7], self._qpos[:, 7:]
        up = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).expand_as(pos)
        legs = torch.stack((joints[:, 0], joints[:, 1], -0.5 + joints[:, 2] * 0.0), dim=1)
        left, right = pos + quat_rotate(quat, legs), pos + quat_rotate(quat, legs * torch.tensor([1.0, -1.0, 1.0]))
        contacts = [(foot[:, 2:3] < 0.02).double() for foot in (left, right)]
        linvel = quat_rotate_inverse(quat, self._qvel[:, :3])
        return torch.cat((self._qvel[:, 3:6], linvel, quat_rotate(quat, up), left, right, *contacts), dim=1)

    def _read(self) -> None:
        self.reads += 1
        for view, source in (
            (self._state.qpos, self._qpos),
            (self._state.qvel, self._qvel),
            (self._state.sensordata, self._sensordata),
        ):
            view.copy_(source)
