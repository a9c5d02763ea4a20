"""The pendulum of the small returns check, and the loop that trains on it."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks.learn_small import CHECKS, EPISODE_STEPS, LAYOUT, NUM_ENVS, Check, Pendulum, Training


def _pendulum(angle: float, speed: float) -> Pendulum:
    env = Pendulum(1, seed=0)
    env.angle.fill_(angle)
    env.speed.fill_(speed)
    return env


def test_a_step_from_a_known_state() -> None:
    env = _pendulum(angle=math.pi / 2, speed=1.0)

    reward, successor, truncated = env.step(torch.tensor([[0.5]]))

    # Torque 1, acceleration 15 sin(pi/2) + 3 = 18, so speed 1.9 and angle pi/2 + 0.095; the old state costs.
    torch.testing.assert_close(reward, torch.tensor([-(math.pi**2 / 4 + 0.1 + 0.001)]))
    torch.testing.assert_close(successor, torch.tensor([[-math.sin(0.095), math.cos(0.095), 1.9]]))
    assert not truncated.any()


def test_speed_is_cut_at_8_before_the_angle_moves() -> None:
    env = _pendulum(angle=math.pi / 2, speed=7.9)

    env.step(torch.tensor([[5.0]]))

    torch.testing.assert_close(env.speed, torch.tensor([8.0]))
    torch.testing.assert_close(env.angle, torch.tensor([math.pi / 2 + 0.4]))


def test_the_cost_takes_the_short_way_round() -> None:
    reward, _, _ = _pendulum(angle=1.5 * math.pi, speed=0.0).step(torch.zeros(1, 1))

    torch.testing.assert_close(reward, torch.tensor([-(math.pi**2) / 4]))


def test_the_last_step_shows_its_own_successor_and_restarts() -> None:
    env = _pendulum(angle=math.pi / 2, speed=0.0)
    for _ in range(EPISODE_STEPS - 1):
        _, _, truncated = env.step(torch.zeros(1, 1))
        assert not truncated.any()
    env.angle.fill_(0.0)
    env.speed.fill_(2.0)

    _, successor, truncated = env.step(torch.zeros(1, 1))

    torch.testing.assert_close(successor, torch.tensor([[math.cos(0.1), math.sin(0.1), 2.0]]))
    assert truncated.all()
    assert env.speed.abs().item() <= 1.0


@pytest.mark.parametrize("size", [0.0, 1.0], ids=["zero", "uniform"])
def test_actions_without_a_plan_return_about_minus_1215(size: float) -> None:
    env = Pendulum(4096, seed=0)
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros(4096)

    for _ in range(EPISODE_STEPS):
        total += env.step(size * (2.0 * torch.rand(4096, 1, generator=generator) - 1.0))[0]

    # 5000 episodes of a scalar loop in float64 gave -1216.4 and -1217.9; episodes spread by 358 and 287.
    assert total.mean().item() == pytest.approx(-1217.0, abs=20.0)


class RecordingLearner:
    """Does nothing with a constant action, and keeps what it was told."""

    actor = nn.Identity()
    generator = torch.Generator()
    policy_version = 0

    def __init__(self) -> None:
        self.began: list[bool] = []
        self.slots: list[int] = []

    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Push with half the torque."""
        return torch.full((len(obs), 1), 0.5)

    def start_episodes(self, mask: Tensor) -> None:
        """Note whether all rows begin an episode, or none."""
        assert mask.all() or not mask.any()
        self.began.append(bool(mask.all()))

    def update(self, slot: int) -> Mapping[str, Tensor]:
        """Note the slot."""
        self.slots.append(slot)
        return {"critic_loss": torch.tensor(1.0)}

    def state_dict(self) -> dict[str, object]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Nothing to restore."""


def _small(algo: str, warmup: int) -> Check:
    check = CHECKS[algo]
    return replace(check, cfg=replace(check.cfg, batch_size=256, updates_per_step=2), warmup=warmup)


def test_every_stored_successor_follows_from_its_row_across_time_outs_too() -> None:
    training = Training(_small("td3", warmup=300), seed=0)
    for number in range(1, EPISODE_STEPS + 2):
        training.step(number)

    rows = LAYOUT.columns(training.replay.rows[: int(training.replay.written)])
    env = Pendulum(len(rows.reward), seed=0)
    env.angle = torch.atan2(rows.obs[:, 1], rows.obs[:, 0])
    env.speed = rows.obs[:, 2].clone()
    reward, successor, _ = env.step(rows.action)
    torch.testing.assert_close(rows.next_obs, successor, atol=1e-4, rtol=0)
    torch.testing.assert_close(rows.reward, reward, atol=1e-4, rtol=1e-4)
    ended = torch.zeros(EPISODE_STEPS + 1, NUM_ENVS)
    ended[EPISODE_STEPS - 1] = 1.0
    assert torch.equal(rows.truncated, ended.flatten())
    assert not rows.terminated.any()


def test_the_learner_hears_of_new_episodes_and_gets_slots_in_turn() -> None:
    training = Training(_small("sac", warmup=198), seed=0)
    learner = training.learner = RecordingLearner()

    losses = [training.step(number) for number in range(1, EPISODE_STEPS + 2)]

    assert [step for step, began in enumerate(learner.began) if began] == [0, EPISODE_STEPS]
    assert learner.slots == [1, 0, 1]
    assert losses == [None] * 198 + [1.0] * 3


def test_a_batch_holds_rewards_times_the_checks_scale_and_bootstraps_at_time_outs() -> None:
    training = Training(_small("sac", warmup=EPISODE_STEPS - 1), seed=0)
    training.learner = RecordingLearner()
    for number in range(1, EPISODE_STEPS + 1):
        training.step(number)

    batch = training.batches[EPISODE_STEPS % 2]
    assert batch.columns.truncated.any()
    torch.testing.assert_close(batch.reward, 0.1 * batch.columns.reward)
    torch.testing.assert_close(batch.discount, torch.full_like(batch.discount, 0.97))


def test_flashsac_acts_at_random_until_it_learns_and_scales_rewards_by_their_statistics() -> None:
    training = Training(_small("flashsac", warmup=15), seed=0)
    training.learner = RecordingLearner()
    for number in range(1, 17):
        training.step(number)

    rows = LAYOUT.columns(training.replay.rows[: int(training.replay.written)])
    assert len(rows.action[: 15 * NUM_ENVS].unique()) > 900
    assert torch.equal(rows.action[15 * NUM_ENVS :], torch.full((NUM_ENVS, 1), 0.5))
    batch = training.batches[0]
    scale = batch.columns.reward / batch.reward
    torch.testing.assert_close(scale, scale[0, 0].expand_as(scale), atol=0, rtol=1e-4)
    # No discounted return of 16 steps, so no reward either, is above 5 after scaling.
    largest = rows.reward.view(16, NUM_ENVS).abs().amax()
    assert scale[0, 0] > largest / 5
