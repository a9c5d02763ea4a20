"""Action terms on joints: position, relative position, velocity and effort."""

import torch
from torch import Tensor

from domain.entity import EntitySelection
from domain.errors import ConfigurationError
from domain.managers.action import ActionTerm
from domain.managers.terms import Finite, FixedRange, Range
from domain.view import EnvView


class _JointAction(ActionTerm):
    """Scales an action and writes it to the actuators of the chosen joints, in kinematic joint order.

    Args:
        joints: The joints to drive; each has exactly one actuator.
        scale: Target per unit of action, one number or one a joint.
        clip: Lowest and highest target after scale and offset.
        bounds: Lowest and highest raw action of a bounded policy; others are not cut to it.

    Raises:
        ConfigurationError: A joint has no actuator, or several; or there are not as many scales.
    """

    def __init__(
        self,
        env: EnvView,
        *,
        joints: EntitySelection,
        scale: Finite,
        clip: Range | None = None,
        bounds: FixedRange = (-1.0, 1.0),
    ) -> None:
        index = joints.entity.index
        self._joints = joints
        self._scale = scale
        self._clip = clip
        self.low, self.high = bounds
        self._control = env.backend.control
        columns = []
        for name in joints.joint_names:
            drivers = [a for a, j in zip(index.actuators, index.actuator_joint, strict=True) if j == name]
            if len(drivers) != 1:
                raise ConfigurationError(f"joint '{name}' has {len(drivers)} actuators, an action drives exactly one")
            columns.append(env.index.actuators.index(drivers[0]))
        self._columns = torch.tensor(columns, dtype=torch.int64, device=env.device)
        self.dim = len(columns)
        self.target_names = joints.joint_names
        if scale.numel() not in (1, self.dim):
            raise ConfigurationError(f"scale has {scale.numel()} numbers for {self.dim} joints: give 1 or all")

    def apply(self, action: Tensor) -> None:
        """Write the targets for ``action``, (num_envs, joints)."""
        target = self.offset(action * self._scale)
        if self._clip is not None:
            target = target.clamp(self._clip[0], self._clip[1])
        self._control.index_copy_(1, self._columns, target)

    def offset(self, scaled: Tensor) -> Tensor:
        """Return the target that a scaled action means."""
        return scaled


class JointPositionAction(_JointAction):
    """Position servo target in rad or m: default position + scale * action - encoder bias."""

    def offset(self, scaled: Tensor) -> Tensor:
        """Add the default position and take off the encoder bias."""
        return scaled + self._joints.default_joint_pos - self._joints.encoder_bias


class RelativeJointPositionAction(_JointAction):
    """Position servo target in rad or m: measured position at the control step + scale * action."""

    def offset(self, scaled: Tensor) -> Tensor:
        """Add the present position."""
        return scaled + self._joints.joint_pos


class JointVelocityAction(_JointAction):
    """Velocity servo target in rad/s or m/s: scale * action."""


class JointEffortAction(_JointAction):
    """Motor control: scale * action, in the actuator's own unit (effort = gear * control)."""
