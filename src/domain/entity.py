"""One robot or object of a scene: names, defaults and views of its part of the state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from domain.errors import ConfigurationError, unknown_name
from domain.physics import EntityIndex, ModelIndex, StateView

PART_KINDS = ("joints", "bodies", "geoms", "actuators")
"""What an EntitySelector can choose from."""


@dataclass(frozen=True, kw_only=True)
class EntitySelector:
    """Names parts of an entity by full-match regular expressions; None means all of that kind."""

    entity: str = "robot"
    joints: tuple[str, ...] | None = None
    bodies: tuple[str, ...] | None = None
    geoms: tuple[str, ...] | None = None
    actuators: tuple[str, ...] | None = None
    preserve_order: bool = False
    """Keep the order of the patterns instead of the kinematic order."""


def match_names(patterns: Sequence[str], names: Sequence[str], kind: str, *, preserve_order: bool = False) -> list[int]:
    """Return the positions in ``names`` that the patterns match in full.

    Raises:
        ConfigurationError: There is no pattern, one matches nothing or is no regular expression, or two
            match one name.
    """
    if not patterns:
        raise ConfigurationError(f"no {kind} is selected: give a pattern, or None for all")
    owner: dict[int, str] = {}
    for pattern in patterns:
        try:
            found = [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
        except re.error as error:
            raise ConfigurationError(f"{kind} pattern '{pattern}' is no regular expression: {error}") from error
        if not found:
            raise ConfigurationError(unknown_name(kind, pattern, names))
        for i in found:
            if i in owner:
                raise ConfigurationError(
                    f"{kind} '{names[i]}' is matched by both '{owner[i]}' and '{pattern}': drop one"
                )
            owner[i] = pattern
    return list(owner) if preserve_order else sorted(owner)


class Entity:
    """Views and constants of one entity, float32 on the environment's device.

    ``joint_pos`` (num_envs, joints) in rad or m and ``joint_vel`` are views of qpos and qvel in
    kinematic order; ``root_pos``, ``root_quat`` (w first), ``root_lin_vel`` (world) and
    ``root_ang_vel`` (body) exist where the base is free.
    """

    def __init__(self, index: EntityIndex, model: ModelIndex, state: StateView) -> None:
        self.index = index
        self.model = model
        device = state.qpos.device
        joints = len(index.joints)
        self.joint_pos = state.qpos[:, index.qpos_adr : index.qpos_adr + joints]
        self.joint_vel = state.qvel[:, index.dof_adr : index.dof_adr + joints]
        self.default_joint_pos = torch.tensor([index.default_joint_pos], dtype=torch.float32, device=device)
        limits = torch.tensor(index.joint_range, dtype=torch.float32, device=device).reshape(joints, 2)
        self.joint_low, self.joint_high = limits[:, 0], limits[:, 1]
        self.encoder_bias = torch.zeros(state.qpos.shape[0], joints, device=device)
        self._state = state
        default = torch.tensor([model.default_qpos], dtype=torch.float32, device=device)
        if index.root_qpos_adr is not None and index.root_dof_adr is not None:
            pose, vel = index.root_qpos_adr, index.root_dof_adr
            self.default_root_pose = default[:, pose : pose + 7]
            self.root_pos = state.qpos[:, pose : pose + 3]
            self.root_quat = state.qpos[:, pose + 3 : pose + 7]
            self.root_lin_vel = state.qvel[:, vel : vel + 3]
            self.root_ang_vel = state.qvel[:, vel + 3 : vel + 6]

    @property
    def is_floating(self) -> bool:
        """Whether the entity has a free joint, and so the ``root_`` views."""
        return self.index.root_qpos_adr is not None

    def require_floating(self, who: str) -> None:
        """Raise ConfigurationError, naming ``who`` asked, where the base is fixed."""
        if not self.is_floating:
            raise ConfigurationError(f"{who} needs a free base, and entity '{self.index.name}' has none")


class EntitySelection:
    """A selector resolved against a model: an entity, its chosen parts' ids, and the chosen joints' values.

    ``joint_ids`` count within the entity and are ``slice(None)`` where all joints are meant;
    body, geom and actuator ids count in the whole model, as model fields do.
    """

    def __init__(self, selector: EntitySelector, entity: Entity) -> None:
        self.entity = entity
        index, model = entity.index, entity.model
        device = entity.default_joint_pos.device
        order = selector.preserve_order

        def ids(patterns: tuple[str, ...] | None, names: tuple[str, ...], kind: str) -> list[int]:
            if patterns is None:
                return list(range(len(names)))
            return match_names(patterns, names, kind, preserve_order=order)

        def in_model(
            patterns: tuple[str, ...] | None, names: tuple[str, ...], all_names: tuple[str, ...], kind: str
        ) -> Tensor:
            chosen = [all_names.index(names[i]) for i in ids(patterns, names, kind)]
            return torch.tensor(chosen, dtype=torch.int64, device=device)

        joints = ids(selector.joints, index.joints, "joint")
        self.joint_names = tuple(index.joints[i] for i in joints)
        full = joints == list(range(len(index.joints)))
        self.joint_ids: slice | Tensor = slice(None) if full else torch.tensor(joints, dtype=torch.int64, device=device)
        self._all_joints = full
        self.default_joint_pos = entity.default_joint_pos[:, self.joint_ids]
        self.joint_low, self.joint_high = entity.joint_low[self.joint_ids], entity.joint_high[self.joint_ids]
        self.body_ids = in_model(selector.bodies, index.bodies, model.bodies, "body")
        self.geom_ids = in_model(selector.geoms, index.geoms, model.geoms, "geom")
        self.actuator_ids = in_model(selector.actuators, index.actuators, model.actuators, "actuator")

    @property
    def joint_pos(self) -> Tensor:
        """Positions of the chosen joints, (num_envs, chosen), rad or m."""
        pos = self.entity.joint_pos
        return pos if self._all_joints else pos[:, self.joint_ids]

    @property
    def joint_vel(self) -> Tensor:
        """Velocities of the chosen joints, (num_envs, chosen), rad/s or m/s."""
        vel = self.entity.joint_vel
        return vel if self._all_joints else vel[:, self.joint_ids]

    @property
    def encoder_bias(self) -> Tensor:
        """Encoder errors of the chosen joints, (num_envs, chosen), rad or m."""
        bias = self.entity.encoder_bias
        return bias if self._all_joints else bias[:, self.joint_ids]
