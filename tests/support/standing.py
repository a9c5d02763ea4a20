"""A Unitree G1 that stands still as its own reference motion, and a motion command that tests set by hand."""

import torch

from adapters.mujoco.backend import MujocoBackend
from application.tasks.g1_motion import ANCHOR, BODIES, G1_MOTION
from domain.env import ManagerBasedRlEnv
from domain.env_cfg import EnvCfg
from domain.motion.clip import MotionClip
from domain.motion.command import MotionCommand
from domain.physics import PhysicsBackend
from domain.rng import TorchManagerRng
from domain.view import EnvView


def standing_clip(backend: PhysicsBackend, frames: int = 60) -> MotionClip:
    """Return the default pose of a G1 with sensors for all tracked bodies, at rest."""
    robot = backend.index.entities["robot"]
    pose = backend.state.qpos[:1, robot.qpos_adr : robot.qpos_adr + len(robot.joints)]

    def read(kind: str) -> torch.Tensor:
        slots = [backend.index.sensors[f"{body}_{kind}"] for body in BODIES]
        return torch.stack([backend.state.sensordata[:1, slot.adr : slot.adr + slot.dim] for slot in slots], dim=1)

    pos, quat = read("pos"), read("quat")
    return MotionClip(
        source="standing",
        fps=50.0,
        joints=robot.joints,
        bodies=BODIES,
        joint_pos=pose.repeat(frames, 1),
        joint_vel=torch.zeros(frames, len(robot.joints)),
        body_pos=pos.repeat(frames, 1, 1),
        body_quat=quat.repeat(frames, 1, 1),
        body_lin_vel=torch.zeros(frames, len(BODIES), 3),
        body_ang_vel=torch.zeros(frames, len(BODIES), 3),
    )


def standing_env(algo: str, num_envs: int, *, seed: int = 1, cfg: EnvCfg | None = None) -> ManagerBasedRlEnv:
    """Build the task's environment for an algorithm, with ``cfg`` instead of the declared one where given."""
    task = G1_MOTION.build(algo)
    backend = MujocoBackend(task.make_scene(), num_envs)
    return ManagerBasedRlEnv(cfg or task.env, backend, seed=seed, clips=[standing_clip(backend)])


def tracked_view(num_envs: int) -> tuple[EnvView, MotionCommand]:
    """Return a view with the command ``motion``: robot and reference agree, all at rest."""
    task = G1_MOTION.build("ppo")
    backend = MujocoBackend(task.make_scene(), num_envs)
    rng = TorchManagerRng(0, num_envs, backend.device)
    view = EnvView(backend, rng, decimation=3, max_episode_length=500, clips=[standing_clip(backend)])
    none = torch.zeros(2, 6)
    motion = MotionCommand(
        view,
        bodies=BODIES,
        anchor=ANCHOR,
        sampling="start",
        pose=none,
        velocity=none,
        joint_pos=torch.zeros(2),
        truncate_on_clip_end=True,
    )
    view.commands["motion"], view.command_terms["motion"] = motion.value, motion
    return view, motion
