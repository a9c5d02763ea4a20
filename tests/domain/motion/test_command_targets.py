"""Targets are of the state at which they are read: in a step, after it, after resets and wraps, and after replays."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from domain.env import ManagerBasedRlEnv
from domain.motion.command import MotionCommand
from domain.rotations import quat_conjugate, quat_mul, quat_rotate, quat_yaw
from domain.view import EnvView
from tests.support.dispatches import CountDispatches
from tests.support.follower import command_of, make_clip, motion_env, step
from tests.support.small_env import ends, fails_at, mask

BOTH = pytest.mark.parametrize("resident", [False, True])
SPREAD: dict[str, Any] = {
    "pose": {"x": (-0.3, 0.3), "y": (-0.3, 0.3), "yaw": (-0.5, 0.5)},
    "velocity": {"x": (-0.5, 0.5), "yaw": (-1.0, 1.0)},
    "joint_pos": (-0.1, 0.1),
}


def fresh(motion: MotionCommand) -> Tensor:
    """Return the places and turns of the targets as the definition says, (num_envs, bodies * 7)."""
    heading = quat_yaw(quat_mul(motion.robot_anchor_quat, quat_conjugate(motion.anchor_quat))).unsqueeze(1)
    place = quat_rotate(heading, motion.body_pos - motion.anchor_pos.unsqueeze(1))
    place[..., :2] += motion.robot_anchor_pos[:, None, :2]
    place[..., 2] = motion.body_pos[..., 2]
    return torch.cat((place, quat_mul(heading, motion.body_quat)), dim=-1).flatten(1)


def read(motion: MotionCommand) -> Tensor:
    return torch.cat((motion.relative_pos, motion.relative_quat), dim=-1).flatten(1)


def targets(env: EnvView) -> Tensor:
    """Observe the targets."""
    return read(env.command_term("motion", MotionCommand))


def check(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


@BOTH
def test_observed_targets_are_those_of_the_observed_state(resident: bool) -> None:
    fall = {"fall": ends(fails_at, row=1, step=2)}
    env = motion_env(
        [make_clip(6)], 3, sampling="start", terminations=fall, resident=resident, observe=targets, **SPREAD
    )
    motion = command_of(env)
    check(env.observations.current["more"], fresh(motion))
    frames = []

    for _ in range(14):
        result = env.step(torch.zeros(3, 0))
        check(result.observations["more"], fresh(motion))
        frames.append(motion.frame.tolist())
    check(env.reset(mask(0, 0, 1))["more"], fresh(motion))

    # There was a step, a reset of row 1 in its second one, and a wrap of each row.
    assert frames[:2] == [[1, 1, 1], [2, 0, 2]]
    assert [frames[4], frames[5], frames[7]] == [[5, 3, 5], [0, 4, 0], [2, 0, 2]]
    assert motion.frame.tolist() == [2, 0, 0]


def test_targets_in_a_step_are_those_of_its_frame_and_the_state_after_physics() -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def watch(env: EnvView) -> Tensor:
        motion = env.command_term("motion", MotionCommand)
        seen.append((read(motion).clone(), fresh(motion)))
        return torch.zeros(env.num_envs, dtype=torch.bool)

    env = motion_env([make_clip(6)], 3, sampling="start", terminations={"watch": ends(watch)}, **SPREAD)
    # Building tries each term.
    seen.clear()

    for _ in range(8):
        step(env)
        check(read(command_of(env)), fresh(command_of(env)))

    assert len(seen) == 8
    for actual, expected in seen:
        check(actual, expected)
    assert all(float((a[0] - b[0]).abs().max()) > 1e-3 for a, b in itertools.pairwise(seen))


def replayed(env: ManagerBasedRlEnv) -> None:
    """Move robot and reference as a recorded step does: in place, and without the command's Python."""
    motion = command_of(env)
    motion.robot_body_pos += 0.25
    motion.body_pos += 0.125


def test_targets_that_were_read_before_a_replayed_step_are_derived_anew_after_it() -> None:
    env = motion_env([make_clip(6)], 3, sampling="start", **SPREAD)
    motion = command_of(env)

    for after in (lambda: None, lambda: step(env), lambda: env.reset(mask(1, 0, 0))):
        after()
        before = read(motion).clone()
        replayed(env)
        check(read(motion), fresh(motion))
        assert float((read(motion) - before).abs().max()) > 0.1


def test_a_step_derives_its_targets_once() -> None:
    env = motion_env([make_clip(6)], 3, sampling="start", **SPREAD)
    motion, again = command_of(env), CountDispatches()
    env.commands.advance()
    first = motion.relative_pos.clone()

    with again:
        pos, quat = motion.relative_pos, motion.relative_quat

    assert again.total == 0
    check(torch.cat((pos, quat), dim=-1).flatten(1), fresh(motion))
    assert torch.equal(pos, first)
