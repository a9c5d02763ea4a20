"""One batch of MJWarp worlds: stepping, masked resets, and sensors brought up to date for some of the worlds."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from adapters.mjwarp.capacities import Capacities
from adapters.mjwarp.device import tensor_of
from adapters.mjwarp.engine import mujoco
from adapters.mjwarp.engine import mujoco_warp as mjw
from adapters.mjwarp.newton import newton_for

_CHANGING = ("time", "act", "history", "plastic", "qacc_warmstart", "ctrl", "flex_hessian_valid")
_GIVEN = ("qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata")
"""What a world carries into its next step beside position and velocity. What is given stays as the model has it: a
backend that lets callers change it has to reset it as well."""
_SENSOR = mujoco.mjtSensor
_FRAME_SENSORS = frozenset(
    int(kind)
    for kind in (
        *(_SENSOR.mjSENS_GYRO, _SENSOR.mjSENS_VELOCIMETER, _SENSOR.mjSENS_FRAMEPOS, _SENSOR.mjSENS_FRAMEQUAT),
        *(_SENSOR.mjSENS_FRAMEXAXIS, _SENSOR.mjSENS_FRAMEYAXIS, _SENSOR.mjSENS_FRAMEZAXIS),
        *(_SENSOR.mjSENS_FRAMELINVEL, _SENSOR.mjSENS_FRAMEANGVEL),
    )
)
_CONTACT = int(_SENSOR.mjSENS_CONTACT)
_KIND = mjw.IntegratorType
_INTEGRATORS = {
    _KIND.EULER: mjw.euler,
    _KIND.RK4: mjw.rungekutta4,
    _KIND.IMPLICIT: mjw.implicit,
    _KIND.IMPLICITFAST: mjw.implicit,
}
_OBJECT = mujoco.mjtObj
_MOUNTS = frozenset(
    int(kind)
    for kind in (_OBJECT.mjOBJ_UNKNOWN, _OBJECT.mjOBJ_BODY, _OBJECT.mjOBJ_XBODY, _OBJECT.mjOBJ_GEOM, _OBJECT.mjOBJ_SITE)
)
"""What moves with the frames of bodies; a camera, for one, may follow a centre of mass."""


class Simulation:
    """Worlds of one model. No method waits for the device, allocates by data or branches on it."""

    def __init__(self, model: Any, device_model: Any, num_envs: int, capacities: Capacities) -> None:
        self._model = device_model
        # A world that is no longer finite passes every broad-phase test: it must not take the room of the others.
        spare = int(device_model.nxn_geom_pair_filtered.shape[0])
        self.data: Any = mjw.make_data(
            model,
            nworld=num_envs,
            naconmax=num_envs * capacities.contacts + spare,
            njmax=capacities.constraints,
        )
        self._solve = newton_for(device_model, self.data) or partial(mjw.solve, device_model, self.data)
        self._integrate = _INTEGRATORS[device_model.opt.integrator]
        self._stage = max((int(stage) for stage in model.sensor_needstage), default=0)
        """The last stage of the forward pass that a sensor reads."""
        types = {int(kind) for kind in model.sensor_type}
        # A contact sensor that gives forces is of a later stage.
        mounts = {int(kind) for kind in (*model.sensor_objtype, *model.sensor_reftype)}
        self._of_frames = self._stage <= _VELOCITY and types <= {*_FRAME_SENSORS, _CONTACT} and mounts <= _MOUNTS
        """Whether sensors read no more than frames, their velocities, and which geoms touch."""
        self._touches = _CONTACT in types
        self._remembers = model.nhistory > 0
        """Whether a sensor may delay, for which it has to be read in every step."""
        self._sensors = tensor_of(self.data.sensordata)
        self._kept_sensors = torch.zeros_like(self._sensors)
        self._constraints = tensor_of(self.data.nefc)
        internal = {name: tensor_of(getattr(self.data, name)) for name in (*_CHANGING, *_GIVEN)}
        self._internal = {name: values for name, values in internal.items() if values.numel()}
        self._initial = {name: self._internal[name][:1].clone() for name in _CHANGING if name in self._internal}

    def integration_state(self) -> dict[str, Tensor]:
        """Return the live tensors from which the next step follows, and the sensors, which lag behind."""
        views = {name: tensor_of(getattr(self.data, name)) for name in ("qpos", "qvel", "sensordata")}
        return views | self._internal

    def step(self, *, sensors: bool = True) -> None:
        """Advance all worlds by one physics step; ``sensors`` show the state before it, or may stay as they are.

        What ``mujoco_warp.step`` does, but for energies, callbacks and forces between bodies that no sensor asks for.
        """
        model, data = self._model, self.data
        sensors = sensors or self._remembers
        mjw.fwd_position(model, data, factorize=False)
        if sensors:
            data.sensordata.zero_()
            mjw.sensor_pos(model, data)
        mjw.fwd_velocity(model, data)
        if sensors:
            mjw.sensor_vel(model, data)
        self._accelerate()
        if sensors:
            mjw.sensor_acc(model, data)
        self._integrate(model, data)

    def _accelerate(self) -> None:
        """Let forces and accelerations follow the state."""
        mjw.fwd_actuation(self._model, self.data)
        mjw.fwd_acceleration(self._model, self.data, factorize=True)
        self._solve()

    def reset(self, rows: Tensor) -> None:
        """Put all but position and velocity of the worlds under ``rows``, (num_envs,) bool, as they were at first.

        ``mujoco_warp.reset_data`` builds its kernels anew at each call, 10 ms on the host, and writes the whole contact
        pool; whatever else it clears is computed from this by the next forward pass.
        """
        for name, initial in self._initial.items():
            values = self._internal[name]
            torch.where(rows.view(-1, *(1,) * (values.dim() - 1)), initial, values, out=values)

    def refresh(self, rows: Tensor) -> None:
        """Bring the sensors of the worlds under ``rows`` up to date; the others keep theirs and their warm starts.

        The pass ends at the last stage that a sensor needs, and leaves inertia and constraints out where none reads
        them. The constraint solver leaves the other worlds out.
        """
        if self._stage == 0:
            return
        model, data = self._model, self.data
        self._kept_sensors.copy_(self._sensors)
        if self._of_frames:
            self._move_frames()
        else:
            mjw.fwd_position(model, data, factorize=False)
        data.sensordata.zero_()
        mjw.sensor_pos(model, data)
        if self._stage > _POSITION:
            if not self._of_frames:
                mjw.fwd_velocity(model, data)
            mjw.sensor_vel(model, data)
        if self._stage > _VELOCITY:
            self._constraints.mul_(rows)
            self._accelerate()
            mjw.sensor_acc(model, data)
        torch.where(rows.unsqueeze(1), self._sensors, self._kept_sensors, out=self._sensors)

    def _move_frames(self) -> None:
        """Let frames, their velocities and contacts follow the state."""
        model, data = self._model, self.data
        mjw.kinematics(model, data)
        mjw.com_pos(model, data)
        if self._touches:
            mjw.collision(model, data)
        if self._stage > _POSITION:
            mjw.com_vel(model, data)


_POSITION = int(mujoco.mjtStage.mjSTAGE_POS)
_VELOCITY = int(mujoco.mjtStage.mjSTAGE_VEL)
