"""Which frame a row is at: advance, wrap, truncation, timers, and what failures teach."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, SimulationError
from domain.managers.termination import TerminationTermCfg
from domain.motion.command import MotionCommand
from domain.motion.samplers import AdaptiveSampler
from domain.motion.terminations import clip_end
from domain.view import EnvView
from tests.support.follower import command_of, make_clip, motion_env, step
from tests.support.small_env import ends, fails_at, mask

BOTH = pytest.mark.parametrize("resident", [False, True])
SPREAD: dict[str, Any] = {
    "pose": {"x": (-0.1, 0.1), "yaw": (-0.2, 0.2)},
    "velocity": {"x": (-0.1, 0.1)},
    "joint_pos": (-0.1, 0.1),
}
AT_END = {"end": TerminationTermCfg(func=clip_end, params={"command": "motion"}, time_out=True)}


def is_there(env: ManagerBasedRlEnv, row: int) -> bool:
    """Say whether the simulated robot of a row is exactly in the reference's state."""
    command, state = command_of(env), env.view.state
    root = torch.cat((command.body_pos[row, 0], command.body_quat[row, 0], command.joint_pos[row]))
    speed = torch.cat((command.body_lin_vel[row, 0], command.joint_vel[row]))
    moving = torch.cat((state.qvel[row, :3], state.qvel[row, 6:]))
    return torch.allclose(state.qpos[row], root, atol=1e-6) and torch.allclose(moving, speed, atol=1e-6)


def at_frame_510(env: EnvView) -> Tensor:
    """Fail at one frame of the table."""
    return env.command_term("motion", MotionCommand).frame == 510


def failures(env: ManagerBasedRlEnv) -> list[float]:
    sampler = command_of(env).sampler
    assert isinstance(sampler, AdaptiveSampler)
    return sampler.failures.tolist()


def in_transaction(env: ManagerBasedRlEnv, live: Tensor) -> None:
    """Update the command alone, as a step does."""
    env.view.writes.begin_step()
    with env.view.writes.transaction(live, "commands", command=True):
        command_of(env).update(live)


@BOTH
def test_a_wrap_moves_frame_reference_and_robot_together(resident: bool) -> None:
    env = motion_env([make_clip(4)], sampling="start", resident=resident)
    command = command_of(env)
    seen = []

    for _ in range(9):
        step(env)
        seen.append((command.frame[0].item(), is_there(env, 0)))

    # The state is the reference's only where it has just been written: at the wraps.
    assert [frame for frame, _ in seen] == [1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [there for frame, there in seen if frame == 0] == [True, True]
    assert not any(there for frame, there in seen if frame != 0)
    assert float(env.view.state.qpos[0, 0]) == pytest.approx(0.01, abs=1e-5)


@BOTH
def test_observations_of_a_wrap_show_the_new_frame(resident: bool) -> None:
    clip = make_clip(4)
    env = motion_env([clip], sampling="start", resident=resident)
    step(env, 3)

    result = env.step(torch.zeros(2, 0))

    expected = torch.cat((clip.joint_pos[0], clip.joint_vel[0]))
    torch.testing.assert_close(result.observations["actor"][1], expected)
    assert not (result.terminated | result.truncated).any()
    torch.testing.assert_close(command_of(env).relative_pos, command_of(env).body_pos, atol=1e-6, rtol=0)


def test_each_row_wraps_at_the_end_of_its_own_clip() -> None:
    env = motion_env([make_clip(3), make_clip(5, shift=10.0)], 8)
    command = command_of(env)
    left = {2: 0, 7: 0}

    for _ in range(40):
        ends_before, frames_before = command.clip_end.clone(), command.frame.clone()
        step(env)
        for row in range(8):
            end = int(ends_before[row])
            if int(frames_before[row]) < end:
                assert command.frame[row] == frames_before[row] + 1
                assert command.clip_end[row] == end
            else:
                left[end] += 1
                assert int(command.frame[row]) in (0, 3)
                assert is_there(env, row)
    # Rows left both clips, so both ends were reached; a lap takes 3 or 5 steps.
    assert left[2] > 20
    assert left[7] > 10


def test_a_step_in_which_no_row_wraps_writes_nothing_on_a_host() -> None:
    env = motion_env([make_clip(4)], sampling="start")

    step(env, 3)
    assert not env.view.writes.staged
    step(env)
    assert env.view.writes.staged


def test_only_the_wrapped_rows_are_written() -> None:
    env = motion_env([make_clip(10)], 3, sampling="start")
    step(env, 4)
    env.reset(mask(0, 1, 0))
    step(env, 5)
    before = env.view.state.qpos[1].clone()

    step(env)

    assert command_of(env).frame.tolist() == [0, 6, 0]
    assert env.view.writes.written.tolist() == [True, False, True]
    assert float((env.view.state.qpos[1] - before).abs().max()) < 0.05


@BOTH
def test_with_truncation_a_row_waits_on_the_last_frame(resident: bool) -> None:
    env = motion_env([make_clip(3), make_clip(5)], sampling="start", truncate_on_clip_end=True, resident=resident)

    step(env, 6)

    assert command_of(env).frame.tolist() == [2, 2]
    # The robot has gone on by itself, from 0 at 0.5 m/s.
    assert float(env.view.state.qpos[0, 0]) == pytest.approx(0.06, abs=1e-4)


@BOTH
def test_with_truncation_the_episode_ends_at_the_last_frame_and_starts_anew(resident: bool) -> None:
    env = motion_env(
        [make_clip(3)], sampling="start", truncate_on_clip_end=True, terminations=AT_END, resident=resident
    )
    truncated = []

    for _ in range(7):
        result = env.step(torch.zeros(2, 0))
        truncated.append(bool(result.truncated[0]))
        assert not result.terminated.any()

    # Rewarded at frames 0, 1, 2 and truncated there.
    assert truncated == [False, False, True, False, False, True, False]
    assert command_of(env).frame.tolist() == [1, 1]


def test_a_final_observation_is_the_true_successor() -> None:
    clip = make_clip(20)
    timeout = replace(ends(fails_at, row=0, step=3), time_out=True)
    env = motion_env([clip], sampling="start", terminations={"stop": timeout})
    step(env, 2)

    result = env.step(torch.zeros(2, 0))

    # The third step goes from frame 2 to 3; the new episode is at 0.
    shown = torch.cat((clip.joint_pos, clip.joint_vel), dim=1)
    torch.testing.assert_close(result.final_observations["actor"], shown[[3, 3]])
    torch.testing.assert_close(result.observations["actor"], shown[[0, 3]])


@BOTH
def test_a_row_that_ends_at_its_clips_last_frame_is_reset_and_does_not_wrap(resident: bool) -> None:
    clip = make_clip(20)
    fall = {"fall": ends(fails_at, row=0, step=20)}
    # Where rows wait at the end, nothing can wrap: what is left is the reset.
    wraps, waits = (
        motion_env([clip], sampling="start", terminations=fall, resident=resident, truncate_on_clip_end=waits, **SPREAD)
        for waits in (False, True)
    )
    step(wraps, 19)
    step(waits, 19)
    assert command_of(wraps).frame.tolist() == [19, 19]

    result, expected = wraps.step(torch.zeros(2, 0)), waits.step(torch.zeros(2, 0))

    assert result.terminated.tolist() == [True, False]
    shown = torch.cat((clip.joint_pos, clip.joint_vel), dim=1)
    torch.testing.assert_close(result.final_observations["actor"], shown[[19, 0]])
    torch.testing.assert_close(result.observations["actor"], shown[[0, 0]])
    assert torch.equal(expected.final_observations["actor"][0], result.final_observations["actor"][0])
    assert torch.equal(wraps.view.state.qpos[0], waits.view.state.qpos[0])
    assert int(wraps.drain_faults().counts.sum()) == 0


@BOTH
def test_resetting_one_row_leaves_the_others_clocks_alone(resident: bool) -> None:
    """FR-08."""
    env = motion_env([make_clip(60)], 4, sampling="start", resident=resident)
    command = command_of(env)

    for t in range(20):
        env.reset(mask(1, 0, 0, 0))
        assert command.frame.tolist() == [0, t, t, t]
        step(env)
        assert command.frame.tolist() == [1, t + 1, t + 1, t + 1]


def test_a_timer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="commands.motion.resampling_time_s: this command is drawn at resets"):
        motion_env([make_clip(60)], sampling="start", resampling_time_s=(0.1, 0.1))


def test_host_and_device_draw_the_same_numbers() -> None:
    clips = [make_clip(7), make_clip(60, shift=5.0)]
    stop = {"stop": ends(fails_at, row=2, step=9)}
    host, device = (
        motion_env(clips, 6, sampling="adaptive", rate=0.5, terminations=stop, resident=r, **SPREAD)
        for r in (False, True)
    )

    for _ in range(70):
        step(host)
        step(device)
        assert torch.equal(command_of(host).frame, command_of(device).frame)
        assert torch.equal(host.view.state.qpos, device.view.state.qpos)


def test_a_wrap_without_a_transaction_fails_before_anything_moves() -> None:
    env = motion_env([make_clip(3)], sampling="adaptive")
    step(env)
    env.view.terminated.fill_(True)
    before = env.state_dict()

    with pytest.raises(SimulationError, match="a motion command that wraps needs an open transaction"):
        command_of(env).update(mask(1, 1))

    after = env.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_with_truncation_no_transaction_is_needed() -> None:
    env = motion_env([make_clip(4)], sampling="start", truncate_on_clip_end=True)

    command_of(env).update(mask(1, 1))

    assert command_of(env).frame.tolist() == [1, 1]


def learning_env(**params: Any) -> ManagerBasedRlEnv:
    """Follow two seconds' worth of bins, from frame 0 on, with every failure counted in full."""
    return motion_env([make_clip(60)], 3, **{"sampling": "adaptive", "rate": 1.0, **params})


def test_a_failure_counts_in_the_bin_of_the_frame_it_happened_at() -> None:
    env = learning_env(terminations={"fall": ends(fails_at, row=1, step=3)})
    command = command_of(env)
    step(env, 2)
    command.frame[:] = torch.tensor([5, 30, 5])

    step(env)

    # 60 frames, 2 bins: frame 30 is the first of the second.
    assert failures(env) == [0.0, 1.0]


def test_a_failure_at_a_bins_last_frame_counts_in_that_bin() -> None:
    env = learning_env(terminations={"fall": ends(fails_at, row=1, step=3)})
    step(env, 2)
    command_of(env).frame[:] = torch.tensor([5, 29, 5])

    step(env)

    # The policy was shown frame 29, the last of the first bin; its row is at 30 only afterwards.
    assert failures(env) == [1.0, 0.0]


def test_a_time_out_is_no_failure() -> None:
    env = learning_env(terminations={"time": replace(ends(fails_at, row=1, step=3), time_out=True)})

    step(env, 5)

    assert failures(env) == [0.0, 0.0]


def test_failures_are_counted_once_and_outlive_resets() -> None:
    """FR-05, FR-08."""
    env = learning_env(rate=0.25, terminations={"fall": ends(fails_at, row=1, step=1)})
    step(env)
    learnt = failures(env)
    assert sum(learnt) == 0.25

    env.reset(mask(0, 1, 1))
    step(env, 3)
    env.reset()

    assert failures(env) == learnt


def test_failures_are_counted_once_a_step_though_rows_are_reset_by_hand() -> None:
    """FR-08."""
    env = learning_env(rate=0.5, terminations={"fall": ends(fails_at, row=1, step=4)})

    for _ in range(8):
        env.reset(mask(1, 0, 0))
        step(env)

    assert failures(env) == [0.5, 0.0]


def test_an_evaluation_learns_nothing() -> None:
    """FR-05."""
    env = learning_env(collect_statistics=False, terminations={"fall": ends(fails_at, row=1, step=3)})

    step(env, 5)

    assert failures(env) == [0.0, 0.0]


def two_unlike_clips(**params: Any) -> ManagerBasedRlEnv:
    fall = {"fall": ends(at_frame_510)}
    return motion_env([make_clip(10), make_clip(1000)], 4, sampling="adaptive", rate=0.5, terminations=fall, **params)


def test_failures_in_the_second_of_two_unlike_clips_move_starts_there_and_outlive_resets() -> None:
    """FR-05: every failure is at frame 500 of the second clip, frame 510 of the table."""
    env = two_unlike_clips()
    command = command_of(env)
    sampler = command.sampler
    assert isinstance(sampler, AdaptiveSampler)
    numbers = torch.rand(10_000, 2, generator=torch.Generator().manual_seed(3))

    for _ in range(20):
        command.frame.fill_(510)
        command.clip_end.fill_(1009)
        assert env.step(torch.zeros(4, 0)).terminated.all()
        env.reset()
    chosen = sampler.sample(numbers)

    # One bin for the short clip and floor(1000 / 50) + 1 for the long one; of these number floor(500 * 21 / 1000).
    counted = torch.zeros(22)
    counted[1 + 10] = 4.0 * (1.0 - 0.5**20)
    torch.testing.assert_close(sampler.failures, counted)
    assert (chosen >= 0).all()
    assert (chosen < command.table.end_of[chosen]).all()
    # That bin's starts: frames 10 / 21 to 11 / 21 of 999 of the clip.
    there = (chosen >= 10 + 475) & (chosen <= 10 + 523)
    assert there.float().mean() > 0.95

    played = two_unlike_clips(collect_statistics=False)
    played.load_state_dict(env.state_dict())
    command_of(played).frame.fill_(510)
    command_of(played).clip_end.fill_(1009)
    assert played.step(torch.zeros(4, 0)).terminated.all()
    torch.testing.assert_close(torch.tensor(failures(played)), counted)


def test_a_row_that_broke_has_not_failed() -> None:
    env = learning_env()
    env.view.terminated[:2] = True
    env.view.state.diverged[0] = True

    in_transaction(env, mask(0, 0, 1))

    assert sum(failures(env)) == 1.0
