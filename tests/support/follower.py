"""A small robot, reference motions that it can follow, and environments on the real engine in which it does.

The robot is a free base with a leg on either side that turns about y; it floats without gravity, so it goes on as it
was put. A clip walks along x and turns: frame t has the base at x = shift + 0.01 t, and no two frames are alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from adapters.mujoco.backend import MujocoBackend
from application.robots.scene import SceneModel
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.managers.command import CommandTermCfg
from domain.managers.observation import ObservationGroupCfg, ObservationTermCfg
from domain.managers.termination import TerminationTermCfg
from domain.mdp.observations import generated_command
from domain.motion.clip import WIDTHS, MotionClip
from domain.motion.command import MotionCommand
from domain.motion.tracked_bodies import SENSOR_SIZES
from domain.physics import EntityIndex, ModelIndex, SensorSlot
from domain.rotations import quat_from_euler_xyz, quat_mul, quat_rotate
from domain.view import EnvView

BODIES = ("base", "left", "right")
JOINTS = ("left_joint", "right_joint")
HIPS = ((0.0, 0.15, 0.0), (0.0, -0.15, 0.0))
DT = 0.02
_ELEMENTS = {"pos": "framepos", "quat": "framequat", "linvel": "framelinvel", "angvel": "frameangvel"}
_LEG = """
      <body name="{side}" pos="0 {y} 0">
        <inertial pos="0 0 -0.1" mass="1" diaginertia="0.01 0.01 0.01"/>
        <joint name="{side}_joint" axis="0 1 0" range="-1 1"/>
      </body>"""
_MJCF = """
<mujoco model="follower">
  <compiler angle="radian"/>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <camera name="side" pos="0 -2 0.6" xyaxes="1 0 0 0 0.3 1"/>
    <body name="base" pos="0 0 0.5">
      <freejoint name="root"/>
      <inertial pos="0 0 0" mass="6" diaginertia="0.1 0.1 0.1"/>{legs}
    </body>
  </worldbody>
  <sensor>{sensors}</sensor>
</mujoco>
"""


def follower(bodies: Sequence[str] = BODIES) -> SceneModel:
    """Return the scene, with sensors of ``bodies`` in that order."""
    slots: dict[str, SensorSlot] = {}
    text, adr = "", 0
    for kind, size in SENSOR_SIZES.items():
        for body in bodies:
            name = f"{body}_{kind}"
            slots[name] = SensorSlot(name=name, type=_ELEMENTS[kind], adr=adr, dim=size)
            text += f'<{_ELEMENTS[kind]} name="{name}" objtype="xbody" objname="{body}"/>'
            adr += size
    legs = "".join(_LEG.format(side=side, y=hip[1]) for side, hip in zip(BODIES[1:], HIPS, strict=True))
    return SceneModel(mjcf=_MJCF.format(legs=legs, sensors=text), camera="side", index=_index(slots, adr))


def _index(sensors: dict[str, SensorSlot], width: int) -> ModelIndex:
    robot = EntityIndex(
        name="robot",
        joints=JOINTS,
        qpos_adr=7,
        dof_adr=6,
        joint_range=((-1.0, 1.0), (-1.0, 1.0)),
        default_joint_pos=(0.0, 0.0),
        root_body="base",
        root_qpos_adr=0,
        root_dof_adr=0,
        bodies=BODIES,
        geoms=(),
        sites=(),
        actuators=(),
        actuator_joint=(),
    )
    return ModelIndex(
        nq=9,
        nv=8,
        nu=0,
        nsensordata=width,
        timestep=0.01,
        bodies=("world", *BODIES),
        joints=("root", *JOINTS),
        geoms=(),
        sites=(),
        actuators=(),
        sensors=sensors,
        default_qpos=(0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        entities={"robot": robot},
    )


def make_clip(frames: int, *, shift: float = 0.0, source: str = "walk", fps: float = 1.0 / DT) -> MotionClip:
    """Return a clip that the robot can follow: body states are those of its joints."""
    time = torch.arange(frames, dtype=torch.float32) * DT
    zero = torch.zeros(frames)
    base_pos = torch.stack((shift + 0.5 * time, zero, 0.5 + 0.1 * time), dim=1)
    base_vel = torch.tensor([[0.5, 0.0, 0.1]]).expand(frames, 3)
    base_quat = quat_from_euler_xyz(zero, zero, 0.4 * time)
    spin = torch.tensor([[0.0, 0.0, 0.4]]).expand(frames, 3)
    joint_pos = torch.stack((0.3 * torch.sin(time), -0.2 * torch.sin(time)), dim=1)
    joint_vel = torch.stack((0.3 * torch.cos(time), -0.2 * torch.cos(time)), dim=1)
    pos, quat, vel, turn = [base_pos], [base_quat], [base_vel], [spin]
    for i, hip in enumerate(HIPS):
        arm = quat_rotate(base_quat, torch.tensor([hip]).expand(frames, 3))
        axis = quat_rotate(base_quat, torch.tensor([[0.0, 1.0, 0.0]]).expand(frames, 3))
        pos.append(base_pos + arm)
        vel.append(base_vel + torch.linalg.cross(spin, arm))
        quat.append(quat_mul(base_quat, quat_from_euler_xyz(zero, joint_pos[:, i], zero)))
        turn.append(spin + axis * joint_vel[:, i : i + 1])
    return MotionClip(
        source=source,
        fps=fps,
        joints=JOINTS,
        bodies=BODIES,
        joint_pos=joint_pos,
        joint_vel=joint_vel,
        body_pos=torch.stack(pos, dim=1),
        body_quat=torch.stack(quat, dim=1),
        body_lin_vel=torch.stack(vel, dim=1),
        body_ang_vel=torch.stack(turn, dim=1),
    )


def cut(clip: MotionClip, first: int) -> MotionClip:
    """Return the clip from a frame on."""
    return replace(clip, **{name: getattr(clip, name)[first:] for name in WIDTHS})


def flipped(clip: MotionClip) -> MotionClip:
    """Return the same motion with every second frame's quaternions negated."""
    signs = torch.where(torch.arange(clip.frames) % 2 == 0, 1.0, -1.0)
    return replace(clip, body_quat=clip.body_quat * signs[:, None, None])


class ResidentLike(MujocoBackend):
    """The engine on the CPU, that lets nothing be skipped in a step, as a device would."""

    def skips(self, mask: Tensor, *, may_wait: bool = False) -> bool:
        return super().skips(mask) if may_wait else False


def motion_cfg(**params: Any) -> CommandTermCfg:
    """Return a command that starts at clips' first frames, exactly there, and wraps."""
    given: dict[str, Any] = {
        "bodies": BODIES,
        "anchor": "base",
        "sampling": "clip_start",
        "pose": {},
        "velocity": {},
        "joint_pos": (0.0, 0.0),
        "truncate_on_clip_end": False,
    }
    time = params.pop("resampling_time_s", None)
    return CommandTermCfg(func=MotionCommand, params={**given, **params}, resampling_time_s=time)


def motion_env(
    clips: Sequence[MotionClip],
    num_envs: int = 2,
    *,
    resident: bool = False,
    terminations: dict[str, TerminationTermCfg] | None = None,
    seed: int = 0,
    observe: Callable[[EnvView], Tensor] | None = None,
    **params: Any,
) -> ManagerBasedRlEnv:
    """Return an environment, reset once, whose policy sees the command; ``params`` are the command's.

    A group ``more`` shows what ``observe`` returns, where it is given.
    """
    backend = (ResidentLike if resident else MujocoBackend)(follower(), num_envs)
    see = ObservationTermCfg(func=generated_command, params={"command": "motion"})
    groups = {"actor": ObservationGroupCfg(terms={"command": see})}
    if observe is not None:
        groups["more"] = ObservationGroupCfg(terms={"more": ObservationTermCfg(func=observe)})
    cfg = EnvCfg(
        sim_dt=0.01,
        decimation=2,
        episode_length_s=100.0,
        stagger_episodes=False,
        observations=groups,
        commands={"motion": motion_cfg(**params)},
        terminations=terminations or {},
    )
    env = ManagerBasedRlEnv(cfg, backend, seed=seed, clips=clips)
    env.reset()
    return env


def command_of(env: ManagerBasedRlEnv) -> MotionCommand:
    """Return the command."""
    return env.view.command_term("motion", MotionCommand)


def step(env: ManagerBasedRlEnv, times: int = 1) -> None:
    """Step without any action."""
    for _ in range(times):
        env.step(torch.zeros(env.num_envs, 0))
