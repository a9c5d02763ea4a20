"""What training loads: good motions of every form, and one line for each that nothing could be learnt from."""

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from adapters.motion_npz.motion_files import LocalMotionFiles
from adapters.mujoco.kinematics import MujocoKinematics
from application.motion.check import check_motion
from application.motion.load import MotionTools, absolute_sources, load_clips, read_source
from application.motion.ports import Kinematics, Poses
from application.motion.trajectory import clip_of, trajectory_of
from application.robots import cartpole
from application.robots.scene import SceneModel
from domain.errors import ConfigurationError, DataError
from domain.motion.clip import MotionClip
from tests.support.motion_files import (
    Arrays,
    builtin,
    g1_kinematics,
    g1_robot,
    g1_scene,
    save,
    unnamed,
    with_free_joint,
)

STEP_DT = 0.02
SQUAT = builtin("squat")


def kinematics(scene: SceneModel) -> Kinematics:
    return g1_kinematics()


TOOLS = MotionTools(files=LocalMotionFiles(), kinematics=kinematics)


def load(*sources: str, step_dt: float = STEP_DT) -> tuple[list[MotionClip], list[str]]:
    told: list[str] = []
    return load_clips(sources, g1_scene(), step_dt=step_dt, tools=TOOLS, tell=told.append, height_limit=0.25), told


def depths() -> list[int]:
    """Return how many bodies stand between each of the robot's and its root, in MuJoCo's order."""
    model = mujoco.MjModel.from_xml_string(g1_scene().mjcf)
    depth = {0: -1}
    for body in range(1, model.nbody):
        depth[body] = depth[int(model.body_parentid[body])] + 1
    return [depth[model.body(name).id] for name in g1_robot().bodies]


def refused(folder: Path, arrays: Arrays) -> str:
    path = save(folder / "dance.npz", arrays)
    with pytest.raises(DataError) as caught:
        load(path)
    return str(caught.value).removeprefix(path + ": ")


def test_no_motions_need_nothing() -> None:
    def none(scene: SceneModel) -> Kinematics:
        raise AssertionError

    tools = MotionTools(files=LocalMotionFiles(), kinematics=none)

    assert load_clips([], cartpole.build(), step_dt=STEP_DT, tools=tools) == []


def test_files_and_built_in_motions_are_loaded_in_order(tmp_path: Path) -> None:
    one, two = save(tmp_path / "a.npz", unnamed(SQUAT)), save(tmp_path / "b.npz", with_free_joint(builtin("wave")))

    clips, told = load(two, "builtin:step", one)

    assert [clip.frames for clip in clips] == [351, 401, 341]
    assert [clip.source for clip in clips] == [two, "builtin:step", one]
    assert all(clip.joints == g1_robot().joints for clip in clips)
    torch.testing.assert_close(clips[2].joint_pos, SQUAT.joint_pos)
    assert [line.split(": ")[1] for line in told] == ["no joint_names", "no body_names"]


@pytest.mark.parametrize("rate", [25.0, 50.0, 60.0])
def test_a_built_in_motion_has_the_rate_of_control(rate: float) -> None:
    (clip,), _ = load("builtin:sway", step_dt=1.0 / rate)

    assert clip.fps == rate
    assert (clip.frames - 1) / clip.fps == pytest.approx(6.8)


def test_a_step_that_is_not_exact_in_floats_is_no_other_rate(tmp_path: Path) -> None:
    clips, _ = load(save(tmp_path / "a.npz", unnamed(SQUAT)), step_dt=3 * (1.0 / 150.0))

    assert clips[0].fps == 50.0


def test_another_rate_than_control_is_refused_with_the_command_that_resamples(tmp_path: Path) -> None:
    text = refused(tmp_path, unnamed(builtin("squat", 30.0)))

    assert text.startswith("its rate is 30 fps and control runs at 50 Hz, one frame a step: 'unilab motion convert ")
    assert "--fps 50 --out NEW.npz'" in text


def test_a_rate_field_that_is_doubled_is_refused_with_the_real_rate(tmp_path: Path) -> None:
    """FR-11."""
    doubled = {**unnamed(builtin("squat", 25.0)), "fps": np.array([50])}

    text = refused(tmp_path, doubled)

    assert text.startswith("fps says 50 and the velocities say 25")
    assert "the clip is over (motion_clip_end) at frame 170 after 3.40 s instead of 6.80 s" in text
    assert "--fps-in 25 --out NEW.npz'" in text


def test_ankles_in_each_others_place_are_refused_by_name(tmp_path: Path) -> None:
    """FR-01."""
    arrays = unnamed(SQUAT)
    left, right = (1 + SQUAT.bodies.index(f"{side}_ankle_roll_link") for side in ("left", "right"))
    for key in ("body_pos_w", "body_quat_w"):
        arrays[key][:, [left, right]] = arrays[key][:, [right, left]]

    text = refused(tmp_path, arrays)

    assert text.startswith("body 'left_ankle_roll_link' is 0.237 m from where forward kinematics of joint_pos puts it")


def test_bodies_in_breadth_first_order_are_refused_by_name(tmp_path: Path) -> None:
    """FR-01: as converters of engines write them that walk the tree level by level."""
    depth = depths()
    order = [0, *(1 + place for place in sorted(range(30), key=lambda place: depth[place]))]
    arrays = {key: value[:, order] if key.startswith("body_") else value for key, value in unnamed(SQUAT).items()}
    assert order[:4] == [0, 1, 2, 8]

    text = refused(tmp_path, arrays)

    # The second place is the right hip's there, and the third one below the left hip in MuJoCo.
    assert text.startswith("body 'left_hip_roll_link' is 0.")
    assert "just where 'right_hip_pitch_link' belongs: the bodies are in another order than this robot's" in text


def test_joints_in_breadth_first_order_are_refused_by_the_first_body_that_they_move(tmp_path: Path) -> None:
    """FR-01."""
    depth = depths()
    order = sorted(range(29), key=lambda place: depth[1 + place])
    arrays = unnamed(SQUAT)
    for key in ("joint_pos", "joint_vel"):
        arrays[key] = arrays[key][:, order]

    text = refused(tmp_path, arrays)

    assert text.startswith("body 'left_hip_roll_link' is ")
    assert "forward kinematics of joint_pos puts it at frame 0" in text


@pytest.mark.parametrize(
    ("key", "names", "one", "other"),
    [
        ("joint_vel", SQUAT.joints, "left_shoulder_pitch_joint", "left_elbow_joint"),
        ("body_lin_vel_w", ("world", *SQUAT.bodies), "pelvis", "left_wrist_yaw_link"),
        ("body_ang_vel_w", ("world", *SQUAT.bodies), "pelvis", "left_elbow_link"),
    ],
)
def test_velocities_in_each_others_place_are_refused_by_name(
    tmp_path: Path, key: str, names: tuple[str, ...], one: str, other: str
) -> None:
    """FR-01."""
    arrays, places = unnamed(SQUAT), [names.index(one), names.index(other)]
    arrays[key][:, places] = arrays[key][:, places[::-1]]

    text = refused(tmp_path, arrays)

    assert text.startswith(f"{key} of '{one}' is the velocity of '{other}'")
    assert "correct joint_names or body_names, or the order of the columns" in text
    assert "motion convert" not in text


def test_velocities_of_bodies_that_were_left_out_are_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, {**unnamed(SQUAT), "body_lin_vel_w": np.zeros((341, 31, 3))})

    assert text.startswith("body_lin_vel_w is not the velocity of body_pos_w: 0.00 times it")


def test_w_last_is_refused_and_said(tmp_path: Path) -> None:
    """FR-15."""
    text = refused(tmp_path, {**unnamed(SQUAT), "body_quat_w": unnamed(SQUAT)["body_quat_w"][..., [1, 2, 3, 0]]})

    assert text.startswith("body_quat_w is x y z w, expected w x y z")
    assert "--quat-order xyzw" in text


def test_centimetres_are_refused_with_the_terminations_that_they_bring(tmp_path: Path) -> None:
    """FR-11."""
    text = refused(tmp_path, {**unnamed(SQUAT), "body_pos_w": unnamed(SQUAT)["body_pos_w"] * 100.0})

    assert text.startswith("positions are in centimetres")
    assert "(episodes end by 'anchor_pos' from frame 0, 'ee_body_pos' from frame 0)" in text
    assert "--scale 0.01" in text


def test_a_robot_half_a_metre_in_the_air_is_refused_with_termination_and_frame(tmp_path: Path) -> None:
    """FR-11."""
    arrays = unnamed(SQUAT)
    arrays["body_pos_w"] = arrays["body_pos_w"] + np.array([0.0, 0.0, 0.5], dtype=np.float32)

    text = refused(tmp_path, arrays)

    assert "termination 'anchor_pos' (off by 0.25 m) ends every episode 12 frames after it starts" in text
    assert "--root-height-offset -0.500" in text


def test_a_root_alone_that_never_turns_is_loaded_and_called_undecidable(tmp_path: Path) -> None:
    """FR-15."""
    flat = dataclasses.replace(SQUAT, body_quat=torch.tensor([1.0, 0.0, 0.0, 0.0]).expand_as(SQUAT.body_quat).clone())
    still = dataclasses.replace(flat, body_ang_vel=torch.zeros_like(flat.body_ang_vel))
    arrays = with_free_joint(still)
    for key in [key for key in arrays if key.startswith("body_")]:
        arrays[key] = arrays[key][:, :1] if key != "body_names" else arrays[key][:1]

    clips, told = load(save(tmp_path / "root.npz", arrays))

    assert clips[0].bodies == ("pelvis",)
    assert any("quaternion order is undecidable" in line for line in told)


def test_a_root_that_never_turns_though_its_speed_says_so_is_refused_and_called_undecidable(tmp_path: Path) -> None:
    """FR-15."""
    flat = dataclasses.replace(SQUAT, body_quat=torch.tensor([1.0, 0.0, 0.0, 0.0]).expand_as(SQUAT.body_quat).clone())
    arrays = {key: value[:, :1] if value.ndim == 3 else value for key, value in with_free_joint(flat).items()}

    text = refused(tmp_path, {**arrays, "body_names": arrays["body_names"][:1]})

    assert text.startswith("body_ang_vel_w is not the velocity of body_quat_w")
    assert "every body_quat_w is the identity, so the quaternion order is undecidable" in text


def test_a_motion_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", unnamed(SQUAT))
    (tmp_path / "link.npz").symlink_to(path)

    for sources in (
        (path, "builtin:squat", path),
        (path, str(tmp_path / "x" / ".." / "a.npz")),
        (path, str(tmp_path / "link.npz")),
        ("builtin:squat", "builtin:squat"),
    ):
        with pytest.raises(ConfigurationError, match=r"^the motion .* is named twice: name each once$"):
            load(*sources)


def test_the_second_of_two_clips_of_unlike_rates_is_refused_by_name(tmp_path: Path) -> None:
    one, two = save(tmp_path / "a.npz", unnamed(SQUAT)), save(tmp_path / "b.npz", unnamed(builtin("sway", 30.0)))

    with pytest.raises(DataError, match=r"b\.npz: its rate is 30 fps and control runs at 50 Hz"):
        load(one, two)


@pytest.mark.parametrize("name", ["x" * 5000 + ".npz", "loop.npz"])
def test_a_name_that_no_file_can_have_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")

    with pytest.raises(DataError, match=r"^motion file .*(does not exist|cannot be read)"):
        load(str(tmp_path / name))


def test_the_home_of_nobody_is_refused() -> None:
    with pytest.raises(DataError, match=r"~nobody-here-7/a\.npz does not exist: there is no such home folder"):
        absolute_sources(["~nobody-here-7/a.npz"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "nowhere/dance.npz",
            r"motion file nowhere/dance\.npz does not exist: check the path; if it has moved, --motion NEWPATH",
        ),
        ("builtin:sqaut", r"unknown built-in motion 'sqaut': did you mean 'squat'\?"),
        ("squat", r"does not exist: check the path; did you mean 'builtin:squat'\?"),
        ("built-in:wave", r"did you mean 'builtin:wave'\?"),
        ("dance.csv", r"is a table: .*convert dance\.csv --fps-in N --quat-order ORDER --out NEW"),
    ],
)
def test_a_motion_that_is_not_there_is_never_another_one(source: str, message: str) -> None:
    """FR-14."""
    with pytest.raises(DataError, match=message):
        load(source)


def test_a_robot_on_a_rail_follows_no_motion() -> None:
    with pytest.raises(ConfigurationError, match="free root"):
        load_clips(["builtin:squat"], cartpole.build(), step_dt=STEP_DT, tools=TOOLS)


def test_sources_are_made_to_mean_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute_sources(["a.npz", "builtin:squat", "/x/b.npz"]) == (
        str(tmp_path / "a.npz"),
        "builtin:squat",
        "/x/b.npz",
    )


def test_joints_in_degrees_are_no_matter_of_the_rate(tmp_path: Path) -> None:
    text = refused(tmp_path, {**unnamed(SQUAT), "joint_pos": np.rad2deg(unnamed(SQUAT)["joint_pos"])})

    assert text.startswith("joint_pos is in degrees, expected radians")
    assert "--degrees --out NEW.npz'" in text


def made(**changes: torch.Tensor) -> Arrays:
    """Return the arrays of a clip that fits itself, made from the squat with other roots or joints."""
    path = dataclasses.replace(trajectory_of(SQUAT, g1_robot()), **changes)  # type: ignore[arg-type]
    return unnamed(clip_of(path, g1_robot(), g1_kinematics(), "made"))


def squat_joints(**places: tuple[slice, float]) -> torch.Tensor:
    joints = SQUAT.joint_pos.double().clone()
    for name, (frames, value) in places.items():
        joints[frames, g1_robot().joints.index(name)] = value
    return joints


def test_joints_that_look_like_degrees_are_refused_with_that_alone(tmp_path: Path) -> None:
    text = refused(tmp_path, made(joint_pos=torch.rad2deg(SQUAT.joint_pos.double())))

    assert text.startswith("joint_pos looks like degrees, expected radians: ")
    assert text.count("unilab motion convert") == 1
    assert "--degrees --out NEW.npz'" in text


def test_every_finding_of_a_check_that_is_no_refusal_is_told(tmp_path: Path) -> None:
    root = SQUAT.body_pos[:, 0].double().clone()
    root[:, 2] -= 0.1
    arrays = made(root_pos=root, joint_pos=squat_joints(waist_roll_joint=(slice(None), 0.72)))
    path = save(tmp_path / "low.npz", arrays)

    _, told = load(path)

    # 0.52 rad is the end of the waist's range.
    notes = [line.removeprefix(f"{path}: ") for line in told if "names" not in line]
    assert notes[0] == "1 of 29 joints leave their ranges, the furthest is 'waist_roll_joint', by 0.200 rad at frame 0"
    assert notes[1].startswith("the robot is 0.1")
    assert f"'unilab motion convert {path} --root-height-offset 0.1" in notes[1]
    report = check_motion(
        read_source(path, g1_scene().index, g1_kinematics(), TOOLS.files), g1_scene().index, g1_kinematics(), 50.0
    )
    assert [note.split(": '")[0] for note in notes] == [finding.what for finding in report.findings]


def test_an_end_that_is_certain_somewhere_is_told_and_one_from_the_first_frame_refused(tmp_path: Path) -> None:
    late = save(tmp_path / "late.npz", made(joint_pos=squat_joints(left_hip_roll_joint=(slice(200, 300), -1.6))))

    _, told = load(late)

    assert any("termination 'ee_body_pos' ends every episode that reaches frame 200" in line for line in told)
    text = refused(tmp_path, made(joint_pos=squat_joints(left_hip_roll_joint=(slice(None), -1.6))))
    assert text.startswith(
        "termination 'ee_body_pos' ends every episode that reaches frame 0: 'left_ankle_roll_link' is"
    )
    assert "motion convert" not in text


def test_a_long_clip_is_looked_at_in_a_thousand_frames(tmp_path: Path) -> None:
    path = trajectory_of(SQUAT, g1_robot())
    long = dataclasses.replace(
        path,
        root_pos=path.root_pos.repeat(8, 1),
        root_quat=path.root_quat.repeat(8, 1),
        joint_pos=path.joint_pos.repeat(8, 1),
    )
    file = save(tmp_path / "long.npz", unnamed(clip_of(long, g1_robot(), g1_kinematics(), "long")))
    looked: list[int] = []

    class Counting(MujocoKinematics):
        def poses(self, qpos: torch.Tensor) -> Poses:
            looked.append(len(qpos))
            return super().poses(qpos)

    tools = MotionTools(files=LocalMotionFiles(), kinematics=lambda scene: Counting(scene, g1_robot()))
    load_clips([file], g1_scene(), step_dt=STEP_DT, tools=tools, height_limit=0.25)

    assert max(looked) == 1000


def test_an_upside_down_robot_is_not_told_to_be_lifted(tmp_path: Path) -> None:
    over = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64).repeat(SQUAT.frames, 1)
    root = SQUAT.body_pos[:, 0].double() + torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)

    text = refused(tmp_path, made(root_quat=over, root_pos=root))

    assert text.startswith("the robot is upside down in most frames ('pelvis' by 180 degrees)")
    assert "--root-height-offset" not in text
