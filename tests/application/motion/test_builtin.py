"""Built-in motions can be followed: standing feet do not move, the centre of mass stays over them, no limit is met."""

import math
import time
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from application.motion.builtin import PLANS, builtin_name, course, make_clip
from application.motion.check import check_motion
from application.motion.ports import Poses
from application.motion.schema import ReadMotion
from application.motion.trajectory import rates, trajectory_of
from application.robots import go2
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from tests.support.motion_files import builtin, g1_kinematics, g1_robot, g1_scene

NAMES = sorted(PLANS)
FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
SOLE = 0.035
TOE, HEEL, TOE_WIDE, HEEL_WIDE = 0.12, -0.05, 0.03, 0.025
"""m: the corners of a foot from its body's origin."""


def poses(clip: MotionClip) -> Poses:
    return g1_kinematics().poses(trajectory_of(clip, g1_robot()).qpos)


def foot(clip: MotionClip, side: int) -> Tensor:
    return clip.body_pos[:, clip.bodies.index(FEET[side])].double()


def corners(position: Tensor) -> list[tuple[float, float]]:
    x, y = float(position[0]), float(position[1])
    return [
        (x + TOE, y + TOE_WIDE),
        (x + TOE, y - TOE_WIDE),
        (x + HEEL, y + HEEL_WIDE),
        (x + HEEL, y - HEEL_WIDE),
    ]


def hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the convex hull, counter-clockwise (Andrew's monotone chain)."""

    def half(ordered: list[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for point in ordered:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0.0:
                chain.pop()
            chain.append(point)
        return chain[:-1]

    ordered = sorted(set(points))
    return half(ordered) + half(ordered[::-1])


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def margin(point: Tensor, polygon: list[tuple[float, float]]) -> float:
    """Return how far a point is inside a polygon, m; negative outside."""
    place = (float(point[0]), float(point[1]))
    sides = zip(polygon, [*polygon[1:], polygon[0]], strict=True)
    return min(_turn(a, b, place) / math.dist(a, b) for a, b in sides)


def on_floor(clip: MotionClip) -> list[Tensor]:
    """Return for each foot the frames in which it stands."""
    return [foot(clip, side)[:, 2] < SOLE + 1e-4 for side in (0, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_a_foot_that_stands_does_not_slip_and_is_level(name: str) -> None:
    clip = builtin(name)

    for side, stands in enumerate(on_floor(clip)):
        place = foot(clip, side)
        quat = clip.body_quat[:, clip.bodies.index(FEET[side])]
        assert float((place - place[0]).norm(dim=1)[stands].max()) < 1e-4
        assert float(quat[stands][:, 1:].abs().max()) < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_the_centre_of_mass_stays_over_the_feet_that_stand(name: str) -> None:
    clip = builtin(name)
    com, stands = poses(clip).com, on_floor(clip)

    for frame in range(clip.frames):
        support = [c for side in (0, 1) if bool(stands[side][frame]) for c in corners(foot(clip, side)[frame])]
        assert margin(com[frame], hull(support)) > 0.015, frame


@pytest.mark.parametrize("name", NAMES)
def test_what_the_floor_must_push_at_stays_under_the_feet_too(name: str) -> None:
    clip = builtin(name)
    com, stands = poses(clip).com, on_floor(clip)
    acceleration = rates(rates(com, clip.fps), clip.fps)
    # The zero-moment point of a body whose angular momentum is small.
    pressed = com[:, :2] - acceleration[:, :2] * com[:, 2:] / (9.81 + acceleration[:, 2:])

    for frame in range(clip.frames):
        support = [c for side in (0, 1) if bool(stands[side][frame]) for c in corners(foot(clip, side)[frame])]
        assert margin(pressed[frame], hull(support)) > 0.005, frame


@pytest.mark.parametrize("name", NAMES)
def test_the_robot_is_never_in_the_floor_nor_off_it(name: str) -> None:
    clearance = poses(builtin(name)).clearance

    assert float(clearance.abs().max()) < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_joints_keep_away_from_their_limits_and_are_slow(name: str) -> None:
    clip = builtin(name)
    low, high = torch.tensor(g1_robot().joint_range).unbind(dim=1)

    # Less than what a reset adds would be clipped; the ankles have the narrowest range of all, 0.26 rad.
    assert float(torch.minimum(clip.joint_pos - low, high - clip.joint_pos).min()) > 0.05
    assert float(clip.joint_vel.abs().max()) < 3.0
    assert float(rates(clip.joint_vel, clip.fps).abs().max()) < 25.0


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_and_ends_at_rest_in_the_standing_pose(name: str) -> None:
    clip = builtin(name)
    stand = torch.tensor(g1_robot().default_joint_pos)

    for frame in (0, -1):
        torch.testing.assert_close(clip.joint_pos[frame], stand, atol=0.01, rtol=0)
        assert float(clip.joint_vel[frame].abs().max()) < 1e-4
        assert float(clip.body_lin_vel[frame].abs().max()) < 1e-4
    assert 6.0 < (clip.frames - 1) / clip.fps <= 8.0


def test_each_moves_what_its_name_says() -> None:
    pelvis = {name: builtin(name).body_pos[:, 0] for name in NAMES}
    wrist = builtin("wave").bodies.index("right_wrist_yaw_link")
    head = builtin("wave").bodies.index("torso_link")

    assert float(pelvis["squat"][0, 2] - pelvis["squat"][:, 2].min()) == pytest.approx(0.16, abs=1e-3)
    assert float(pelvis["sway"][:, 1].max() - pelvis["sway"][:, 1].min()) > 0.1
    for side in (0, 1):
        assert float(foot(builtin("step"), side)[:, 2].max()) == pytest.approx(SOLE + 0.06, abs=1e-3)
    assert float((builtin("wave").body_pos[:, wrist, 2] - builtin("wave").body_pos[:, head, 2]).max()) > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_the_check_finds_nothing(name: str) -> None:
    report = check_motion(ReadMotion(clip=builtin(name)), g1_scene().index, g1_kinematics(), 50.0)

    assert (report.findings, report.ends, report.notes) == ((), (), ())


def test_making_one_is_quick_and_gives_the_same_bits_again() -> None:
    begin = time.perf_counter()
    again = make_clip("step", g1_scene().index, g1_kinematics())
    taken = time.perf_counter() - begin

    assert torch.equal(again.joint_pos, builtin("step").joint_pos)
    assert torch.equal(again.body_ang_vel, builtin("step").body_ang_vel)
    # 0.1 s on one core; other work on the machine may take its time.
    assert taken < 2.0


def test_another_rate_has_the_same_motion() -> None:
    fast, slow = builtin("sway", 100.0), builtin("sway")

    assert fast.frames == 2 * slow.frames - 1
    torch.testing.assert_close(fast.joint_pos[::2], slow.joint_pos, atol=1e-6, rtol=0)
    torch.testing.assert_close(fast.joint_vel[::2], slow.joint_vel, atol=5e-3, rtol=0)


def test_a_course_passes_its_knots_and_is_at_rest_there() -> None:
    at = torch.tensor([0.0, 1.0, 1.001, 1.5, 2.0, 3.0], dtype=torch.float64)

    value = course(at, [(1.0, 2.0), (2.0, 4.0)])

    torch.testing.assert_close(value, torch.tensor([2.0, 2.0, 2.0, 3.0, 4.0, 4.0], dtype=torch.float64))


def test_names_have_a_prefix_and_a_wrong_one_meets_its_nearest() -> None:
    assert builtin_name("builtin:squat") == "squat"
    assert builtin_name("clips/squat.npz") is None
    with pytest.raises(DataError, match=r"unknown built-in motion 'sqat': did you mean 'squat'\?"):
        builtin_name("builtin:sqat")


def test_another_robot_is_refused() -> None:
    scene = go2.build(timestep=0.005)

    with pytest.raises(ConfigurationError, match="made for the Unitree G1"):
        make_clip("squat", scene.index, g1_kinematics())
