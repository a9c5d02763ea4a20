"""Chooses buffer sizes by letting a few robots fall under random controls."""

import math
from typing import Any

import torch
from torch import Tensor

from adapters.mjwarp.capacities import Capacities
from adapters.mjwarp.device import tensor_of
from adapters.mjwarp.engine import mujoco_warp as mjw
from domain.physics import ModelIndex

WORLDS = 8
SECONDS = 1.0
MARGIN = 2.0
"""Times what was seen: a policy finds poses that a short fall does not."""
CONTACT_FLOOR = 16
CONSTRAINT_FLOOR = 32
_ROOM = Capacities(contacts=512, constraints=1024)
"""What the probe itself gets; it counts further than that."""
_GRAIN = 16
"""Kernels are compiled for a number of constraint rows: round numbers meet in the kernel cache."""


def probe(model: Any, device_model: Any, index: ModelIndex, device: torch.device) -> Capacities:
    """Return capacities for envs of a compiled model and its copy on the device.

    Half of the worlds start in the default pose, half thrown and turned; every control is drawn anew each 0.1 s. This
    waits for the device and takes about a second.
    """
    data = mjw.make_data(model, nworld=WORLDS, nconmax=_ROOM.contacts, njmax=_ROOM.constraints)
    # On the CPU, so that the same figures are drawn on every device.
    generator = torch.Generator().manual_seed(1)
    qpos, qvel = _starts(index, generator)
    tensor_of(data.qpos).copy_(qpos)
    tensor_of(data.qvel).copy_(qvel)
    low, high = _control_range(model)
    steps = min(max(math.ceil(SECONDS / index.timestep), 50), 300)
    hold = max(1, round(0.1 / index.timestep))
    peak_rows, peak_contacts, peak_pairs = 0, 0, 0
    for step in range(steps):
        if index.nu and step % hold == 0:
            control = low + (high - low) * torch.rand(WORLDS, index.nu, generator=generator)
            tensor_of(data.ctrl).copy_(control)
        mjw.step(device_model, data)
        peak_rows = max(peak_rows, int(tensor_of(data.nefc).max()))
        peak_pairs = max(peak_pairs, int(tensor_of(data.ncollision)))
        contacts = int(tensor_of(data.nacon))
        if contacts:
            owners = tensor_of(data.contact.worldid)[: min(contacts, data.naconmax)]
            peak_contacts = max(peak_contacts, int(torch.bincount(owners).max()))
    return Capacities(
        contacts=_rounded(max(peak_contacts, math.ceil(peak_pairs / WORLDS)), CONTACT_FLOOR),
        constraints=_rounded(peak_rows, CONSTRAINT_FLOOR),
    )


def _starts(index: ModelIndex, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    qpos = torch.tensor([index.default_qpos]).repeat(WORLDS, 1)
    qvel = torch.zeros(WORLDS, index.nv)
    thrown = slice(WORLDS // 2, WORLDS)
    qvel[thrown] = torch.randn(WORLDS - WORLDS // 2, index.nv, generator=generator)
    for entity in index.entities.values():
        if entity.root_qpos_adr is not None:
            turn = slice(entity.root_qpos_adr + 3, entity.root_qpos_adr + 7)
            quat = torch.randn(WORLDS - WORLDS // 2, 4, generator=generator)
            qpos[thrown, turn] = quat / quat.norm(dim=1, keepdim=True)
    return qpos, qvel


def _control_range(model: Any) -> tuple[Tensor, Tensor]:
    """Return the least and greatest control, (nu,) each; 1 where a control has no limit."""
    limits = torch.tensor(model.actuator_ctrlrange.tolist(), dtype=torch.float32).reshape(-1, 2)
    limited = torch.tensor(model.actuator_ctrllimited.tolist(), dtype=torch.bool).reshape(-1, 1)
    limits = torch.where(limited, limits, torch.tensor([-1.0, 1.0]))
    return limits[:, 0], limits[:, 1]


def _rounded(peak: int, floor: int) -> int:
    return math.ceil((MARGIN * peak + floor) / _GRAIN) * _GRAIN
