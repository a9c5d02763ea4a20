"""The command right after resets, and its state in a checkpoint."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from domain.env import ManagerBasedRlEnv
from domain.errors import DataError
from domain.managers.termination import TerminationTermCfg
from domain.motion.clip import MotionClip
from domain.motion.terminations import BodyHeightOff, anchor_height_off
from tests.support.follower import BODIES, command_of, flipped, make_clip, motion_env, step
from tests.support.small_env import ends, fails_at, mask

SPREAD: dict[str, Any] = {
    "pose": {"x": (-0.1, 0.1), "z": (-0.02, 0.02), "yaw": (-0.2, 0.2)},
    "velocity": {"x": (-0.1, 0.1), "yaw": (-0.5, 0.5)},
    "joint_pos": (-0.1, 0.1),
}
CLIPS = [make_clip(7), make_clip(60, shift=5.0)]
FALL = {"fall": ends(fails_at, row=1, step=9)}
PARTS = ("value", "frame", "clip_end", "joint_vel", "body_pos", "anchor_quat", "relative_pos", "relative_quat")


def tracking_env(seed: int = 0, num_envs: int = 4) -> ManagerBasedRlEnv:
    return motion_env(CLIPS, num_envs, sampling="adaptive", rate=0.3, terminations=FALL, seed=seed, **SPREAD)


def test_targets_are_right_straight_after_a_reset() -> None:
    """FR-09."""
    env = tracking_env()
    command = command_of(env)
    after_reset = (command.relative_pos.clone(), command.relative_quat.clone())

    # What a step would derive from the same state.
    command.advance()

    assert torch.equal(command.relative_pos, after_reset[0])
    assert torch.equal(command.relative_quat, after_reset[1])
    # The robot is at most 0.1 m and 0.2 rad off in x and heading, and the anchor's target is where it stands.
    torch.testing.assert_close(command.relative_pos[:, 0, :2], command.robot_body_pos[:, 0, :2])
    assert (command.relative_pos - command.robot_body_pos).abs().max() < 0.1
    assert command.relative_pos[..., 2].min() > 0.4


def test_not_every_row_ends_in_the_first_step() -> None:
    """FR-09."""
    far = {"command": "motion", "limit": 0.1}
    off = {
        "anchor": TerminationTermCfg(func=anchor_height_off, params=far),
        "bodies": TerminationTermCfg(func=BodyHeightOff, params={**far, "bodies": BODIES}),
    }
    env = motion_env(CLIPS, 4, sampling="uniform", terminations=off, **SPREAD)

    result = env.step(torch.zeros(4, 0))

    assert not result.terminated.any()


def test_targets_are_right_straight_after_a_partial_reset() -> None:
    """FR-09."""
    env = tracking_env()
    step(env, 4)

    env.reset(mask(0, 1, 0, 1))

    command = command_of(env)
    torch.testing.assert_close(command.relative_pos[:, 0, :2], command.robot_body_pos[:, 0, :2])
    frames = command.table.views(command.table.lookup(command.frame))
    assert torch.equal(command.body_pos, frames.body_pos)
    assert torch.equal(command.relative_pos[..., 2], frames.body_pos[..., 2])


def test_a_reset_of_no_row_draws_and_changes_nothing() -> None:
    env = tracking_env()
    step(env, 3)
    before = env.state_dict()

    env.reset(mask(0, 0, 0, 0))

    after = env.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_masked_start_of_no_row_changes_nothing() -> None:
    env = motion_env(CLIPS, 4, sampling="adaptive", resident=True, **SPREAD)
    step(env, 3)
    before = env.state_dict()
    env.view.writes.begin_step()

    with env.view.writes.transaction(mask(0, 0, 0, 0), "reset"):
        env.commands.reset(mask(0, 0, 0, 0))
    env.view.writes.commit()

    after = env.state_dict()
    assert [name for name, value in before.items() if not torch.equal(after[name], value)] == []


def test_a_run_goes_on_bit_for_bit_from_the_middle_of_an_episode() -> None:
    first, second = tracking_env(seed=1), tracking_env(seed=2)
    step(first, 11)

    second.load_state_dict(first.state_dict())

    for name in PARTS:
        assert torch.equal(getattr(command_of(first), name), getattr(command_of(second), name)), name
    for _ in range(30):
        a, b = first.step(torch.zeros(4, 0)), second.step(torch.zeros(4, 0))
        assert torch.equal(a.observations["actor"], b.observations["actor"])
        assert torch.equal(first.view.state.qpos, second.view.state.qpos)
    after, other = first.state_dict(), second.state_dict()
    assert all(torch.equal(other[name], value) for name, value in after.items())


def moved(clip: MotionClip) -> MotionClip:
    """Return the motion with one joint one bit elsewhere in one frame."""
    joint_pos = clip.joint_pos.clone()
    joint_pos[3, 1] = torch.nextafter(joint_pos[3, 1], torch.tensor(9.0))
    return replace(clip, joint_pos=joint_pos)


@pytest.mark.parametrize(
    ("clips", "what"),
    [
        ([CLIPS[0], moved(CLIPS[1])], "poses or velocities differ"),
        ([CLIPS[0], flipped(CLIPS[1])], "poses or velocities differ"),
        ([CLIPS[1], CLIPS[0]], "lengths differ"),
        # There is another number of bins too, which says less.
        ([CLIPS[0], make_clip(160, shift=5.0)], "lengths differ"),
        ([CLIPS[0]], "lengths differ"),
    ],
)
def test_a_state_of_another_motion_is_refused_before_anything_changes(clips: list[MotionClip], what: str) -> None:
    saved = tracking_env(seed=1)
    step(saved, 11)
    env = motion_env(clips, 4, sampling="adaptive", rate=0.3, terminations=FALL, seed=2, **SPREAD)
    step(env, 2)
    before = env.state_dict()
    shown = command_of(env).body_pos.clone()

    with pytest.raises(
        DataError, match=rf"the reference motion \(walk.*\) is another .* its {what}: give the same file"
    ):
        env.load_state_dict(saved.state_dict())

    after = env.state_dict()
    assert [name for name, value in before.items() if not torch.equal(after[name], value)] == []
    assert torch.equal(command_of(env).body_pos, shown)


def test_a_state_loads_with_a_copy_of_its_motion_from_another_place() -> None:
    saved = tracking_env(seed=1)
    step(saved, 3)
    copies = [replace(clip, source=f"copy of {clip.source}") for clip in CLIPS]
    env = motion_env(copies, 4, sampling="adaptive", rate=0.3, terminations=FALL, seed=2, **SPREAD)

    env.load_state_dict(saved.state_dict())

    assert torch.equal(command_of(env).frame, command_of(saved).frame)


def test_a_rows_start_does_not_depend_on_who_else_starts() -> None:
    alone, together = tracking_env(), tracking_env()
    step(alone, 3)
    step(together, 3)

    alone.reset(mask(0, 0, 1, 0))
    together.reset(mask(1, 1, 1, 1))

    assert command_of(alone).frame[2] == command_of(together).frame[2]
    assert torch.equal(alone.view.state.qpos[2], together.view.state.qpos[2])
