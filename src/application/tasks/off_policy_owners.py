"""Published settings of the off-policy algorithms, one owner for a task and an algorithm.

Sources, by algorithm; what an owner does not name is the default of its configuration class:

- SAC, FlashSAC: public ``unilab`` 1.5.2, owners on MuJoCo of ``g1_walk_flat``, ``g1_motion_tracking`` and
  ``go2_joystick_flat``, here ``g1_walk``, ``g1_motion`` and ``go2_flat``.
- TD3, which 1.5.2 no longer has: public ``unilab`` sources of 2026-05-31, on MuJoCo for ``g1_walk``, on Motrix for
  ``go2_flat``.

No source has SAC on ``go2_flat`` (a base without an owner) or TD3 on ``g1_motion``: neither has an owner here.

An iteration is one env step of all environments and the updates after it. The sources count replay and start in env
steps of each environment, so both are products here; where the start is below a batch, the batch decides.

What the same owners change in the environment belongs to the task and is not here: action scale, noise, rewards,
events. So does the sigma of 0.25 of the Go2 owner of TD3 (``reward.tracking_sigma``): its exploration is the default.
Precision, compilation and graphs are the machine's, in ``ExecutionCfg``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from application.settings import TrainSettings
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg


@dataclass(frozen=True, kw_only=True)
class Owner:
    """How a task is trained by one algorithm."""

    train: TrainSettings
    learner: SacCfg | Td3Cfg | FlashSacCfg


SAC_G1_WALK = Owner(
    train=TrainSettings(num_envs=2048, iterations=5_000, save_interval=1_000),
    learner=SacCfg(
        updates_per_step=8,
        alpha_init=1e-3,
        replay_rows=512 * 2048,
        learning_start_rows=10 * 2048,
    ),
)
"""10.2 M env steps, 40,000 critic updates."""

SAC_G1_MOTION = Owner(
    train=TrainSettings(num_envs=2048, iterations=25_000, save_interval=1_000),
    learner=SacCfg(
        policy_frequency=2,
        gamma=0.99,
        tau=0.05,
        atoms=501,
        alpha_init=0.1,
        target_entropy_ratio=0.5,
        max_grad_norm=10.0,
        replay_rows=512 * 2048,
    ),
)
"""51.2 M env steps, 100,000 critic updates. Starts at a batch: one env step of 2048 rows is less."""

FLASHSAC_G1_WALK = Owner(
    train=TrainSettings(num_envs=4096, iterations=5_000, save_interval=1_000),
    learner=FlashSacCfg(updates_per_step=8, tau=0.05, replay_rows=256 * 4096, learning_start_rows=49 * 4096),
)
"""20.5 M env steps, 40,000 critic updates."""

FLASHSAC_G1_MOTION = Owner(
    train=TrainSettings(num_envs=2048, iterations=25_000, save_interval=1_000),
    learner=FlashSacCfg(
        updates_per_step=4, gamma=0.99, tau=0.05, replay_rows=512 * 2048, learning_start_rows=98 * 2048
    ),
)
"""51.2 M env steps, 100,000 critic updates."""

FLASHSAC_GO2_FLAT = Owner(
    train=TrainSettings(num_envs=1024, iterations=4_000, save_interval=1_000),
    learner=FlashSacCfg(tau=0.05, replay_rows=4096 * 1024, learning_start_rows=50 * 1024),
)
"""4.1 M env steps, 8,000 critic updates."""

TD3_G1_WALK = Owner(train=TrainSettings(num_envs=4096, iterations=100_000, save_interval=500), learner=Td3Cfg())
"""409.6 M env steps, 400,000 critic updates; the default configuration but for the iterations."""

TD3_GO2_FLAT = Owner(
    train=TrainSettings(num_envs=1024, iterations=5_000, save_interval=1_000),
    learner=Td3Cfg(updates_per_step=8, replay_rows=1024 * 1024, learning_start_rows=10 * 1024),
)
"""5.1 M env steps, 40,000 critic updates."""

OWNERS: Mapping[tuple[str, str], Owner] = MappingProxyType(
    {
        ("g1_walk", "sac"): SAC_G1_WALK,
        ("g1_motion", "sac"): SAC_G1_MOTION,
        ("g1_walk", "flashsac"): FLASHSAC_G1_WALK,
        ("g1_motion", "flashsac"): FLASHSAC_G1_MOTION,
        ("go2_flat", "flashsac"): FLASHSAC_GO2_FLAT,
        ("g1_walk", "td3"): TD3_G1_WALK,
        ("go2_flat", "td3"): TD3_GO2_FLAT,
    }
)
"""By task and algorithm."""
