"""A clip whose rate and velocities disagree is found, and what its rate really is."""

import dataclasses

import pytest
import torch

from application.motion.rates import body_rate_problem, rate_problem
from tests.support.motion_files import builtin


@pytest.mark.parametrize("name", ["squat", "step", "wave"])
@pytest.mark.parametrize("fps", [25.0, 50.0])
def test_velocities_of_a_good_clip_agree(name: str, fps: float) -> None:
    assert rate_problem(builtin(name, fps)) is None
    assert body_rate_problem(builtin(name, fps)) is None


@pytest.mark.parametrize(("real", "said", "factor"), [(25.0, 50.0, "2 times"), (50.0, 30.0, "0.6 times")])
def test_a_rate_that_the_velocities_contradict_is_told_with_the_real_one(real: float, said: float, factor: str) -> None:
    found = rate_problem(dataclasses.replace(builtin("squat", real), fps=said))

    assert found is not None
    assert found.options == f"--fps-in {real:g}"
    assert f"fps says {said:g} and the velocities say {real:g}: joint_pos moves {factor} as fast" in found.what


def test_a_doubled_rate_says_when_the_clip_is_over() -> None:
    found = rate_problem(dataclasses.replace(builtin("squat"), fps=100.0))

    assert found is not None
    assert "the clip is over (motion_clip_end) at frame 340 after 3.40 s instead of 6.80 s" in found.what


def test_velocities_in_another_order_are_told() -> None:
    clip = builtin("step")

    found = rate_problem(dataclasses.replace(clip, joint_vel=clip.joint_vel[:, list(range(28, -1, -1))]))

    assert found is not None
    assert found.what.startswith("joint_vel is not the velocity of joint_pos")


def test_a_clip_at_rest_says_nothing_about_its_rate() -> None:
    clip = builtin("squat")

    still = dataclasses.replace(
        clip,
        joint_pos=clip.joint_pos[:1].expand_as(clip.joint_pos),
        joint_vel=torch.zeros_like(clip.joint_vel),
        body_pos=clip.body_pos[:1].expand_as(clip.body_pos),
        body_lin_vel=torch.zeros_like(clip.body_lin_vel),
    )

    assert rate_problem(still) is None
    assert body_rate_problem(still) is None


def test_body_velocities_of_another_unit_are_told() -> None:
    clip = builtin("squat")

    found = body_rate_problem(dataclasses.replace(clip, body_lin_vel=clip.body_lin_vel * 100.0))

    assert found is not None
    assert "100.00 times" in found.what
