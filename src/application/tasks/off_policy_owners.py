"""Settings of the off-policy algorithms, one owner for a task and an algorithm; published ones where there are any.

Sources, by algorithm; what an owner does not name is the default of its configuration class:

- SAC, FlashSAC: public ``unilab`` 1.5.2, owners on MuJoCo of ``g1_walk_flat``, ``g1_motion_tracking`` and
  ``go2_joystick_flat``, here ``g1_walk``, ``g1_motion`` and ``go2_flat``.
- TD3, which 1.5.2 no longer has: public ``unilab`` sources of 2026-05-31, on MuJoCo for ``g1_walk``, on Motrix for
  ``go2_flat``.

No source has SAC on ``go2_flat`` (a base without an owner), TD3 on ``g1_motion``, or any of them on a cart-pole. Those
owners were chosen by reason and fixed by short sweeps of one seed on an H200 (in ``benchmarks/results``:
``learn_go2_h200.jsonl``, ``g1_motion_td3_sweep.jsonl`` and ``cartpole_off_policy_sweep.jsonl``; PPO's swing-up ends at
972 of 1000).

**Ends of the returns.** A step's reward is multiplied by its length dt (``env.scale_rewards_by_dt``), so a reward of
at most r a step gives returns of at most r * dt / (1 - gamma):

- ``go2_flat``: 1 + 0.2 (tracking) + 0.24 (contact) + 1.6 (swing height: weight 4, each foot swings 0.4 of the time)
  = 3.04, so 3.04 * 0.02 / 0.03 = 2.03 with gamma 0.97. Measured: standing still 1.06 (median), actions that are drawn
  anew every 8 steps -1.2 to 0.8. The published +-10 of TD3, and the default +-20 of SAC, would put all of that on a
  few of 101 atoms (0.2 and 0.4 apart): here the ends are -2 and 3, 0.05 apart.
- ``g1_walk``: 2 + 1.5 (tracking) + 5 (feet on their curve) + 10 (alive) = 18.5, so 18.5 * 0.02 / 0.03 = 12.3 with gamma
  0.97. Measured: joints held at their defaults 0.2 to 10.8 (5.7 in the median), random actions -0.7 to 5.6. SAC's
  default +-20 holds that, its atoms 0.4 apart as published; TD3's published +-10 would cut what a good walk is worth:
  here the ends are -5 and 15, 0.2 apart.
- ``g1_motion``: 1 + 0.5 (anchor) + 2 + 1 + 1 + 1 (bodies) = 6.5, so 6.5 * 0.02 / 0.01 = 13 with gamma 0.99. Measured
  on a motion that stands still: uniform random actions -0.6 to 0.5, actions that jump from one end to the other in
  every step -4.9. SAC's default +-20 holds that, its 501 atoms are 0.08 apart; TD3, which has no entropy to add, gets
  -5 to 15 and 201 atoms, 0.1 apart. Both are less than what the best step is worth, 6.5 * 0.02 = 0.13.
- Cart-poles: 1 * 0.05 / 0.01 = 5 with gamma 0.99, and never below 0: here the ends are -1 and 6; the units outside
  are for the entropy that SAC adds, and for the critics' own error.
- FlashSAC scales rewards itself, so that no return leaves +-5: its ends are the published ones everywhere.

Whoever changes weights or discount has to do this sum again.

An iteration is one env step of all environments and the updates after it. The sources count replay and start in env
steps of each environment, so both are products here; where the start is below a batch, the batch decides.

What the same owners change in the environment belongs to the task and is not here: action scale, noise, rewards,
events. So does the sigma of 0.25 of the Go2 owner of TD3 (``reward.tracking_sigma``): its exploration is the default.
Precision, compilation and graphs are the machine's, in ``ExecutionCfg``.
"""

from collections.abc import Mapping
from types import MappingProxyType

from application.settings import TrainSettings
from application.tasks.task import Owner
from domain.errors import ConfigurationError
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg

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
    train=TrainSettings(num_envs=1024, iterations=3_000, save_interval=1_000),
    learner=FlashSacCfg(updates_per_step=8, tau=0.05, replay_rows=4096 * 1024, learning_start_rows=50 * 1024),
)
"""3.1 M env steps, 24,000 critic updates. Published but for the updates and iterations.

With its 2 updates a step the robot hardly walks by then; 8 hide behind the environments' step as well.
"""

TD3_G1_WALK = Owner(
    train=TrainSettings(num_envs=4096, iterations=100_000, save_interval=500),
    learner=Td3Cfg(v_min=-5.0, v_max=15.0),
)
"""409.6 M env steps, 400,000 critic updates; the default configuration but for iterations and ends of the returns."""

TD3_G1_MOTION = Owner(
    train=TrainSettings(num_envs=2048, iterations=25_000, save_interval=1_000),
    learner=Td3Cfg(
        gamma=0.99,
        tau=0.05,
        n_step=3,
        replay_rows=512 * 2048,
        learning_start_rows=10 * 2048,
        atoms=201,
        v_min=-5.0,
        v_max=15.0,
        sigma_min=0.05,
        sigma_max=0.25,
        policy_noise=0.1,
        noise_clip=0.2,
    ),
)
"""51.2 M env steps, 100,000 critic updates, as SAC and FlashSAC have.

An action of 1 is 2 rad here. The default exploration would shake every joint by 0.4 to 1.6 rad and end episodes in a
few steps; SAC's target entropy and FlashSAC's target sigma are a deviation of 0.15, the mean of the one here.
After 6.1 M env steps the shipped squat returns 43.0 of about 44.3, bodies 0.023 m off; with rewards of one step 41.6
and 0.045 m, with more exploration 40.8, with less 41.1. Eight updates a step give 43.5, at three quarters of the rate.
"""

TD3_GO2_FLAT = Owner(
    train=TrainSettings(num_envs=1024, iterations=3_000, save_interval=1_000),
    learner=Td3Cfg(updates_per_step=8, replay_rows=1024 * 1024, learning_start_rows=10 * 1024, v_min=-2.0, v_max=3.0),
)
"""3.1 M env steps, 24,000 critic updates. Published but for the ends of the returns, and 2,000 iterations fewer."""

SAC_GO2_FLAT = Owner(
    train=TrainSettings(num_envs=1024, iterations=3_000, save_interval=1_000),
    learner=SacCfg(
        updates_per_step=8,
        alpha_init=1e-3,
        replay_rows=1024 * 1024,
        learning_start_rows=10 * 1024,
        v_min=-2.0,
        v_max=3.0,
    ),
)
"""3.1 M env steps, 24,000 critic updates; after SAC on ``g1_walk``."""

SAC_CARTPOLE = Owner(
    train=TrainSettings(num_envs=128, iterations=4_000, save_interval=1_000),
    learner=SacCfg(
        batch_size=1024,
        policy_frequency=2,
        gamma=0.99,
        tau=0.05,
        replay_rows=4096 * 128,
        learning_start_rows=10 * 128,
        v_min=-1.0,
        v_max=6.0,
        actor_hidden=(128, 64),
        critic_hidden=(256, 128),
        alpha_init=1e-3,
        target_entropy_ratio=1.0,
    ),
)
"""0.5 M env steps, 16,000 critic updates; swing-up returns 973 of 1000.

An entropy of 0 nats is a policy as wide as half of its range, too coarse to balance with: the target is -1 nat.
"""

TD3_CARTPOLE = Owner(
    train=TrainSettings(num_envs=128, iterations=4_000, save_interval=1_000),
    learner=Td3Cfg(
        batch_size=1024,
        gamma=0.99,
        n_step=3,
        replay_rows=4096 * 128,
        learning_start_rows=10 * 128,
        v_min=-1.0,
        v_max=6.0,
        actor_hidden=(128, 64),
        critic_hidden=(256, 128),
        sigma_min=0.05,
    ),
)
"""0.5 M env steps, 16,000 critic updates; swing-up returns 966 of 1000, and 267 with rewards of one step.

Some rows explore little, to see what balancing is worth.
"""

FLASHSAC_CARTPOLE = Owner(
    train=TrainSettings(num_envs=128, iterations=4_000, save_interval=1_000),
    learner=FlashSacCfg(
        batch_size=1024,
        updates_per_step=4,
        gamma=0.99,
        tau=0.05,
        replay_rows=4096 * 128,
        learning_start_rows=50 * 128,
        actor_width=64,
        critic_width=128,
        lr_horizon=16_000,
    ),
)
"""0.5 M env steps, 16,000 critic updates; swing-up returns 972 of 1000. The rates fall over the whole run."""

OWNERS: Mapping[tuple[str, str], Owner] = MappingProxyType(
    {
        ("g1_walk", "sac"): SAC_G1_WALK,
        ("g1_motion", "sac"): SAC_G1_MOTION,
        ("g1_walk", "flashsac"): FLASHSAC_G1_WALK,
        ("g1_motion", "flashsac"): FLASHSAC_G1_MOTION,
        ("go2_flat", "flashsac"): FLASHSAC_GO2_FLAT,
        ("g1_walk", "td3"): TD3_G1_WALK,
        ("g1_motion", "td3"): TD3_G1_MOTION,
        ("go2_flat", "td3"): TD3_GO2_FLAT,
        ("go2_flat", "sac"): SAC_GO2_FLAT,
        ("cartpole_balance", "sac"): SAC_CARTPOLE,
        ("cartpole_balance", "td3"): TD3_CARTPOLE,
        ("cartpole_balance", "flashsac"): FLASHSAC_CARTPOLE,
        ("cartpole_swingup", "sac"): SAC_CARTPOLE,
        ("cartpole_swingup", "td3"): TD3_CARTPOLE,
        ("cartpole_swingup", "flashsac"): FLASHSAC_CARTPOLE,
    }
)
"""By task and algorithm."""


def owner_of(task: str, algo: str, ppo: Owner) -> Owner:
    """Return how ``algo`` trains ``task``: ``ppo`` for PPO, else its entry in ``OWNERS``.

    Raises:
        ConfigurationError: There is none.
    """
    if algo == "ppo":
        return ppo
    if (task, algo) not in OWNERS:
        raise ConfigurationError(
            f"task '{task}' names algorithm '{algo}' and has no values for it: add an entry to OWNERS in "
            "application/tasks/off_policy_owners.py"
        )
    return OWNERS[task, algo]
