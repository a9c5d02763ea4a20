"""Events that give model fields a value per env; always from the nominal value, so nothing compounds."""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.errors import ConfigurationError
from domain.managers.terms import Bounds, Ordered, Range, RangeTable
from domain.rng import Draw
from domain.view import EnvView

Operation = Literal["add", "scale", "abs"]
Distribution = Literal["uniform", "log_uniform"]
Offset = Annotated[Tensor, RangeTable(("x", "y", "z"))]
GainRange = Annotated[Tensor, Ordered(), Bounds(0.0)]
_MIN_MASS = 1e-6


def sample(draw: Draw, span: Tensor, distribution: Distribution) -> Tensor:
    """Return the draw's columns between span[0] and span[1], evenly or evenly in the logarithm."""
    if distribution == "log_uniform":
        return torch.exp(draw.between(torch.log(span[0]), torch.log(span[1])))
    return draw.between(span[0], span[1])


def check_distribution(span: Tensor, distribution: Distribution) -> None:
    """Raise ConfigurationError where a logarithm would be taken of a number that is not positive."""
    if distribution == "log_uniform" and not bool((span > 0.0).all()):
        raise ConfigurationError("a log_uniform range lies above 0: raise its low end, or use uniform")


def combine(nominal: Tensor, drawn: Tensor, operation: Operation) -> Tensor:
    """Return nominal + drawn, nominal * drawn, or drawn."""
    if operation == "add":
        return nominal + drawn
    return nominal * drawn if operation == "scale" else drawn.expand(drawn.shape[0], nominal.shape[1])


class _ColumnRandomizer:
    """Randomises one number of a field for chosen elements: field[:, ids] or field[:, ids, axis]."""

    modes = ("startup", "reset")
    field: str
    axis: int | None = None
    minimum: float = -math.inf

    def __init__(
        self,
        env: EnvView,
        ids: Tensor,
        span: Tensor,
        operation: Operation,
        distribution: Distribution,
        shared: bool,
    ) -> None:
        check_distribution(span, distribution)
        if len(ids) == 0:
            raise ConfigurationError(f"nothing is selected whose {self.field} could be drawn")
        self._env = env
        self._nominal = env.writes.model_field(self.field)
        self._ids = ids
        self._span, self._operation, self._distribution = span, operation, distribution
        self._draw = env.rng.reserve(1 if shared else len(ids))

    def __call__(self, mask: Tensor) -> None:
        """Stage new values for the rows under ``mask``."""
        nominal = self._nominal if self.axis is None else self._nominal[..., self.axis]
        value = combine(nominal[:, self._ids], sample(self._draw, self._span, self._distribution), self._operation)
        value = value.clamp(min=self.minimum)
        self._env.writes.write_field(self.field, value, mask, ids=self._ids, axis=self.axis)


class RandomizeBodyMass(_ColumnRandomizer):
    """Masses of bodies, kg (or a factor); inertias stay, masses stay above 1e-6 kg."""

    field = "body_mass"
    required_fields = frozenset({"body_mass"})
    minimum = _MIN_MASS

    def __init__(
        self,
        env: EnvView,
        *,
        mass: Range,
        bodies: EntitySelection,
        operation: Operation = "add",
        distribution: Distribution = "uniform",
        shared: bool = False,
    ) -> None:
        super().__init__(env, bodies.body_ids, mass, operation, distribution, shared)


class RandomizeGeomFriction(_ColumnRandomizer):
    """Sliding friction of geoms; ``shared`` gives all chosen geoms of a row one number."""

    field = "geom_friction"
    required_fields = frozenset({"geom_friction"})
    axis = 0
    minimum = 0.0

    def __init__(
        self,
        env: EnvView,
        *,
        friction: Range,
        geoms: EntitySelection,
        operation: Operation = "abs",
        distribution: Distribution = "uniform",
        shared: bool = False,
    ) -> None:
        super().__init__(env, geoms.geom_ids, friction, operation, distribution, shared)


class RandomizeJointArmature(_ColumnRandomizer):
    """Armature of joints, kg m^2 or kg (or a factor)."""

    field = "dof_armature"
    required_fields = frozenset({"dof_armature"})
    minimum = 0.0

    def __init__(
        self,
        env: EnvView,
        *,
        armature: Range,
        joints: EntitySelection,
        operation: Operation = "scale",
        distribution: Distribution = "uniform",
        shared: bool = False,
    ) -> None:
        index = joints.entity.index
        dofs = torch.arange(index.dof_adr, index.dof_adr + len(index.joints), device=env.device)
        super().__init__(env, dofs[joints.joint_ids], armature, operation, distribution, shared)


class RandomizeBodyCom:
    """Shifts the centre of mass of bodies, m, body frame; one offset a row for all chosen bodies."""

    modes = ("startup", "reset")
    required_fields = frozenset({"body_ipos"})

    def __init__(self, env: EnvView, *, offset: Offset, bodies: EntitySelection) -> None:
        self._env = env
        self._nominal = env.writes.model_field("body_ipos")
        self._ids = bodies.body_ids
        self._offset = offset
        self._draw = env.rng.reserve(3)

    def __call__(self, mask: Tensor) -> None:
        """Stage new centres of mass for the rows under ``mask``."""
        drawn = self._draw.between(self._offset[0], self._offset[1]).unsqueeze(1)
        self._env.writes.write_field("body_ipos", self._nominal[:, self._ids] + drawn, mask, ids=self._ids)


class RandomizePdGains:
    """Gains of position servos, drawn per actuator: kp in N m/rad and kd in N m s/rad, or factors.

    kp becomes gainprm[0] and -biasprm[1], kd becomes -biasprm[2]; damping of the joint itself is
    another matter and stays.
    """

    modes = ("startup", "reset")
    required_fields = frozenset({"actuator_gainprm", "actuator_biasprm"})

    def __init__(
        self,
        env: EnvView,
        *,
        kp: GainRange,
        kd: GainRange,
        actuators: EntitySelection,
        operation: Literal["scale", "abs"] = "abs",
        distribution: Distribution = "uniform",
    ) -> None:
        check_distribution(torch.stack((kp, kd)), distribution)
        self._env = env
        self._ids = actuators.actuator_ids
        gain, bias = env.writes.model_field("actuator_gainprm"), env.writes.model_field("actuator_biasprm")
        self._kp, self._kd = gain[:, self._ids, 0], -bias[:, self._ids, 2]
        self._spans = (kp, kd)
        self._operation: Operation = operation
        self._distribution: Distribution = distribution
        width = len(self._ids)
        if width == 0:
            raise ConfigurationError("there is no actuator whose gains could be drawn")
        self._draws = (env.rng.reserve(width), env.rng.reserve(width))

    def __call__(self, mask: Tensor) -> None:
        """Stage new gains for the rows under ``mask``."""
        kp = combine(self._kp, sample(self._draws[0], self._spans[0], self._distribution), self._operation)
        kd = combine(self._kd, sample(self._draws[1], self._spans[1], self._distribution), self._operation)
        write = self._env.writes.write_field
        write("actuator_gainprm", kp, mask, ids=self._ids, axis=0)
        write("actuator_biasprm", -kp, mask, ids=self._ids, axis=1)
        write("actuator_biasprm", -kd, mask, ids=self._ids, axis=2)
