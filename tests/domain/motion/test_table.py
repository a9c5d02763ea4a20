"""All clips in one table: whose columns and frames are whose."""

from dataclasses import replace

import pytest
import torch

from domain.errors import ConfigurationError, DataError
from domain.motion.clip import WIDTHS, MotionClip
from domain.motion.table import MotionTable
from tests.support.follower import BODIES, JOINTS, cut, flipped, make_clip

CPU = torch.device("cpu")


def table_of(*clips: MotionClip, bodies: tuple[str, ...] = BODIES) -> MotionTable:
    return MotionTable(clips, JOINTS, bodies, CPU)


def permuted(clip: MotionClip) -> MotionClip:
    """Return the same motion with joints and bodies in the opposite order, and one body more."""
    order = [2, 1, 0, 0]
    return replace(
        clip,
        joints=clip.joints[::-1],
        bodies=(*clip.bodies[::-1], "backpack"),
        joint_pos=clip.joint_pos.flip(1),
        joint_vel=clip.joint_vel.flip(1),
        body_pos=clip.body_pos[:, order],
        body_quat=clip.body_quat[:, order],
        body_lin_vel=clip.body_lin_vel[:, order],
        body_ang_vel=clip.body_ang_vel[:, order],
    )


def test_frames_of_two_clips_stand_one_after_the_other() -> None:
    table = table_of(make_clip(3), make_clip(5, shift=10.0))

    assert table.frames == 8
    assert table.clip_start.tolist() == [0, 3]
    assert table.clip_end.tolist() == [2, 7]
    assert table.end_of.tolist() == [2, 2, 2, 7, 7, 7, 7, 7]
    rows = table.views(table.lookup(torch.tensor([2, 3, 7])))
    torch.testing.assert_close(rows.body_pos[:, 0, 0], torch.tensor([0.02, 10.0, 10.04]))


def test_columns_are_joints_then_bodies() -> None:
    clip = make_clip(3)
    table = table_of(clip)

    assert table.width == 2 + 2 + 3 * (3 + 4 + 3 + 3)
    expected = [clip.joint_pos, clip.joint_vel, clip.body_pos, clip.body_quat, clip.body_lin_vel, clip.body_ang_vel]
    torch.testing.assert_close(table.data, torch.cat([part.flatten(1) for part in expected], dim=1))
    rows = table.views(table.data)
    torch.testing.assert_close(rows.joint_vel, clip.joint_vel)
    torch.testing.assert_close(rows.body_quat, clip.body_quat)
    torch.testing.assert_close(rows.body_ang_vel, clip.body_ang_vel)


def test_views_share_the_memory_of_their_rows() -> None:
    table = table_of(make_clip(3))
    rows = torch.zeros(2, table.width)
    views = table.views(rows)

    assert table.lookup(torch.tensor([1, 2]), out=rows) is rows

    torch.testing.assert_close(views.body_pos[:, 0, 0], torch.tensor([0.01, 0.02]))


def test_a_clip_in_another_order_with_more_bodies_gives_the_same_table() -> None:
    clip = make_clip(4)

    assert torch.equal(table_of(permuted(clip)).data, table_of(clip).data)


def test_tracked_bodies_may_be_few_and_in_any_order() -> None:
    clip = make_clip(4)
    table = table_of(clip, bodies=("right", "base"))

    torch.testing.assert_close(table.views(table.data).body_pos, clip.body_pos[:, [2, 0]])


def test_quaternions_are_made_of_unit_norm() -> None:
    clip = make_clip(4)
    table = table_of(replace(clip, body_quat=clip.body_quat * 1.005))

    torch.testing.assert_close(table.data, table_of(clip).data)


def fingerprint(*clips: MotionClip) -> tuple[int, int]:
    numbers, bounds = table_of(*clips).fingerprint.tolist()
    return numbers, bounds


def test_the_same_motion_has_the_same_fingerprint_whatever_its_file_is_like() -> None:
    clip = make_clip(4)

    assert fingerprint(clip) == fingerprint(replace(make_clip(4), source="copy"))
    assert fingerprint(permuted(clip)) == fingerprint(clip)
    assert table_of(clip).fingerprint.dtype == torch.int64


@pytest.mark.parametrize("name", WIDTHS)
def test_the_last_bit_of_any_number_changes_the_fingerprint(name: str) -> None:
    clip = make_clip(4)
    changed = getattr(clip, name).clone()
    last = (-1,) * changed.dim()
    changed[last] = torch.nextafter(changed[last], torch.tensor(9.0))

    numbers, bounds = fingerprint(replace(clip, **{name: changed}))

    assert numbers != fingerprint(clip)[0]
    assert bounds == fingerprint(clip)[1]


def test_regular_changes_and_another_order_change_the_fingerprint() -> None:
    one, two = make_clip(4), make_clip(4, shift=10.0)
    seen = [(one, two), (two, one), (one, flipped(two)), (flipped(one), two), (flipped(one), flipped(two))]

    assert len({fingerprint(*clips)[0] for clips in seen}) == 5
    assert len({fingerprint(*clips)[1] for clips in seen}) == 1


def test_a_negated_quaternion_changes_the_fingerprint_though_its_changes_cancel_evenly() -> None:
    clip = make_clip(4)
    # Its signs + - - + change by -1, 1, 1, -1 times one number: factors that are evenly spaced would sum to 0.
    quat = torch.tensor([0.5, -0.5, -0.5, 0.5]).expand(4, 3, 4)

    assert fingerprint(replace(clip, body_quat=quat)) != fingerprint(replace(clip, body_quat=-quat))


def test_clips_that_are_cut_elsewhere_have_another_fingerprint() -> None:
    clip = make_clip(8)
    parts = (replace(clip, **{name: getattr(clip, name)[:3] for name in WIDTHS}), cut(clip, 3))

    whole, halves = fingerprint(clip), fingerprint(*parts)

    assert torch.equal(table_of(*parts).data, table_of(clip).data)
    assert halves[0] == whole[0]
    assert halves[1] != whole[1]


def test_a_clip_without_a_tracked_body_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"walk.npz lacks .* unknown body 'lefd': did you mean 'left'"):
        table_of(make_clip(3, source="walk.npz"), bodies=("base", "lefd"))


def test_a_clip_without_a_joint_of_the_robot_is_refused_by_name() -> None:
    clip = replace(make_clip(3, source="walk.npz"), joints=("left_joint", "arm"))

    with pytest.raises(DataError, match=r"walk.npz lacks .* unknown joint 'right_joint'"):
        table_of(clip)


def test_clips_of_two_rates_are_refused_with_both_sources() -> None:
    with pytest.raises(DataError, match=r"a.npz has 50 fps and b.npz 30"):
        table_of(make_clip(3, source="a.npz"), make_clip(3, source="b.npz", fps=30.0))


def test_no_clip_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no reference motion is given"):
        table_of()
