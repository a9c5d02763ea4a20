"""``unilab motion`` from the command line: what it prints, writes and refuses."""

from collections.abc import Callable
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest

from application.motion.schema import BODY_KEYS
from entrypoints.cli.main import main
from tests.support.motion_files import Arrays, builtin, save, unnamed


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def motion(*arguments: str) -> int:
    return main(["motion", *arguments])


@pytest.mark.parametrize("name", ["squat", "sway", "step", "wave"])
def test_a_built_in_motion_passes_its_check(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert motion("check", f"builtin:{name}", "--robot", "g1") == 0

    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "nothing is wrong with it"
    assert "bodies against forward kinematics, the 5 worst:" in out


def test_a_motion_that_is_made_is_a_file_that_passes_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert motion("make", "squat", "--out", "squat.npz") == 0
    assert "squat.npz" in capsys.readouterr().out.splitlines()[-1]

    assert motion("check", "squat.npz") == 0
    assert motion("make", "squat", "--out", "squat.npz") == 2
    assert capsys.readouterr().err == "error: squat.npz exists: give --force to replace it\n"
    assert motion("make", "builtin:sway", "--out", "squat.npz", "--fps", "100", "--force") == 0
    with np.load("squat.npz") as file:
        assert (int(file["fps"][0]), file["joint_pos"].shape) == (100, (681, 29))


def test_inspect_shows_rate_length_names_and_ranges(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert motion("inspect", "builtin:squat", "--plot", "squat.png") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "builtin:squat: 341 frames at 50 fps, 6.80 s, 29 joints, 30 bodies"
    (height,) = [line for line in lines if line.startswith("pelvis z, m")]
    assert height.split()[3:] == ["0.597", "0.757", "0.23"]
    assert any(line.startswith("left_knee_joint, rad") and "-0.09 .. 2.88" in line for line in lines)
    assert lines[-2].startswith("bodies: pelvis, left_hip_pitch_link")
    assert lines[-1] == "plot squat.png"
    assert imageio.imread("squat.png").shape[1] > 500


def test_inspect_notes_what_has_no_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(home / "plain.npz", unnamed(builtin("squat")))

    assert motion("inspect", "plain.npz") == 0

    assert "note: no joint_names: joints are taken by position" in capsys.readouterr().out


def test_findings_end_with_code_1_and_their_commands_mend_the_file(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FR-11."""
    arrays = unnamed(builtin("squat"))
    arrays["body_pos_w"] = arrays["body_pos_w"] + np.array([0.0, 0.0, 0.5], dtype=np.float32)
    save(home / "high.npz", arrays)

    assert motion("check", "high.npz") == 1

    lines = capsys.readouterr().out.splitlines()
    assert any("termination 'anchor_pos' ends every episode that reaches frame 12" in line for line in lines)
    (command,) = [line.strip() for line in lines if line.startswith("  -> ")]
    assert command == "-> unilab motion convert high.npz --root-height-offset -0.500 --out NEW.npz"
    assert main([*command.split()[2:-1], "new.npz"]) == 0
    assert motion("check", "new.npz") == 0


def test_a_body_that_is_off_is_shown_with_frame(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = unnamed(builtin("squat"))
    arrays["body_pos_w"][100:, 31 - 1, 2] += 0.05
    save(home / "off.npz", arrays)

    assert motion("check", "off.npz") == 1

    out = capsys.readouterr().out
    assert "bodies against forward kinematics, the 1 that are off:" in out
    assert "right_wrist_yaw_link  0.0500 m at frame 1" in out


def test_another_rate_of_control_is_another_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert motion("check", "builtin:squat", "--control-rate", "100") == 1
    assert "its rate is 50 fps and control runs at 100 Hz" in capsys.readouterr().out


def test_a_table_becomes_a_motion_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = builtin("wave", 30.0)
    parts = [clip.body_pos[:, 0].numpy(), clip.body_quat[:, 0].numpy()[:, [1, 2, 3, 0]], clip.joint_pos.numpy()]
    np.savetxt(home / "wave.csv", np.concatenate(parts, axis=1), delimiter=",")
    options = ("--fps-in", "30", "--quat-order", "xyzw")

    assert motion("convert", "wave.csv", "--out", "wave.npz", *options) == 0
    assert motion("check", "wave.npz") == 0
    assert motion("convert", "wave.csv", "--out", "wave.npz", *options) == 2
    assert motion("convert", "wave.csv", "--out", "other.npz", "--fps-in", "30") == 2
    assert not (home / "other.npz").exists()
    assert "give --quat-order wxyz or xyzw" in capsys.readouterr().err


def test_a_conversion_ends_with_what_a_check_of_it_would_say(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = unnamed(builtin("squat"))
    arrays["body_pos_w"] = arrays["body_pos_w"] + np.array([0.0, 0.0, 0.1], dtype=np.float32)
    save(home / "high.npz", arrays)

    assert motion("convert", "high.npz", "--out", "good.npz", "--root-height-offset", "-0.1") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is wrong with it"
    assert motion("convert", "high.npz", "--out", "new.npz", "--fps", "60") == 0
    verdict = capsys.readouterr().out.splitlines()[-1]
    assert verdict == "1 finding: unilab motion check new.npz --control-rate 60"
    assert main(verdict.split()[3:]) == 1
    assert capsys.readouterr().out.count("found: ") == 1


def test_a_contradiction_in_a_file_is_told_where_it_is_converted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(home / "fast.npz", {**unnamed(builtin("squat")), "fps": np.array([100])})

    assert motion("convert", "fast.npz", "--out", "new.npz") == 0

    assert "note: fps says 100 and the velocities say 50" in capsys.readouterr().out


def test_a_built_in_motion_is_converted_like_a_file(home: Path) -> None:
    assert motion("convert", "builtin:step", "--fps", "60", "--out", "step.npz") == 0

    with np.load("step.npz") as file:
        assert file["joint_pos"].shape == (481, 29)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere.npz"), "motion file nowhere.npz does not exist"),
        (("check", "builtin:jump"), "unknown built-in motion 'jump'"),
        (("make", "squt", "--out", "a.npz"), "did you mean 'squat'?"),
        (("check", "builtin:squat", "--robot", "g2"), "unknown robot 'g2': did you mean"),
        (("check", "builtin:squat", "--robot", "go2"), "made for the Unitree G1"),
        (("check", "builtin:squat", "--control-rate", "0"), "--control-rate is 0"),
        (("inspect", "builtin:squat", "--plot", "squat.jpg"), "name a file that ends in .png"),
        (("convert", "builtin:squat", "--out", "squat.csv"), "let its name end in .npz"),
        (("convert", "builtin:squat", "--out", "a.npz", "--fps", "0"), "--fps is 0"),
        (("convert", "builtin:squat", "--out", "a.npz", "--fps", "nan"), "--fps is nan"),
        (("make", "squat", "--out", "a.npz", "--fps", "1e9"), "frames, more than 1000000: check both rates"),
        (("check", ""), "is a folder: name a file"),
        (("check", "x" * 5000 + ".npz"), "cannot be read: File name too long"),
        (("make", "squat", "--out", "x" * 5000 + ".npz"), "cannot be written to"),
        (("convert", "text.csv", "--out", "a.npz", "--fps-in", "30"), "has 2 columns without names, expected 36"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    (home / "text.csv").write_text("1,2\n3,4\n")

    assert motion(*arguments) == 2

    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert [entry.name for entry in home.iterdir()] == ["text.csv"]


def broken(folder: Path, case: str) -> str:
    """Put a file with one fault into a folder and return its name."""
    name, path = f"{case}.npz", folder / f"{case}.npz"
    if case == "folder":
        path.mkdir()
    elif case == "empty":
        path.touch()
    elif case in ("cut", "changed"):
        data = Path(save(path, unnamed(builtin("squat")))).read_bytes()
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
        path.write_bytes(data[:5000] if case == "cut" else changed)
    else:
        save(path, {**unnamed(builtin("squat")), **FAULTS[case]()})
    return name


def one_value(key: str, place: tuple[int, ...], value: float) -> Arrays:
    array = unnamed(builtin("squat"))[key]
    array[place] = value
    return {key: array}


FAULTS: dict[str, Callable[[], Arrays]] = {
    "wide": lambda: {"joint_pos": np.zeros((341, 36))},
    "bodies": lambda: {key: np.zeros((341, 52, n)) for key, n in BODY_KEYS.items()},
    "nan": lambda: one_value("joint_vel", (7, 3), np.nan),
    "inf": lambda: one_value("body_pos_w", (9, 4, 1), np.inf),
    "objects": lambda: {"joint_pos": np.array([[None]], dtype=object)},
    "rateless": lambda: {"fps": np.array([0])},
    "rates": lambda: {"fps": np.array([50, 50])},
    "short": lambda: {key: value[:1] for key, value in unnamed(builtin("squat")).items()},
    "twice": lambda: {"joint_names": np.array(["a"] * 29)},
    "flat": lambda: {"body_quat_w": np.zeros((341, 31, 4))},
    "escape": lambda: {"body_names": np.array(["\x1b[31m"] * 31)},
}
MESSAGES = {
    "folder": "is a folder: name a file",
    "empty": "is no NPZ (not a zip file)",
    "cut": "is damaged or cut short",
    "changed": "is damaged",
    "wide": "joint_pos has shape (341, 36), expected (frames, 29)",
    "bodies": "body_pos_w has shape (341, 52, 3), expected (frames, 31, 3)",
    "nan": "joint_vel has a NaN at frame 7",
    "inf": "body_pos_w has an inf at frame 9",
    "objects": "joint_pos holds Python objects, expected numbers",
    "rateless": "fps is 0: 'unilab motion convert FILE --fps-in N'",
    "rates": "fps has shape (2,), expected one number",
    "short": "joint_pos has 1 frames: a clip needs at least 2",
    "twice": "joint_names has 'a' more than once",
    "flat": "body_quat_w has norm 0.000 at frame 0 ('pelvis')",
    "escape": "body_names holds text with control characters, expected text",
}
MENDED = {"nan", "inf"}
"""What a conversion does not need."""


@pytest.mark.parametrize("case", MESSAGES)
def test_a_broken_file_is_one_line_and_code_2_whoever_reads_it(
    home: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """FR-13, FR-17: checked, shown, trained with and converted; nothing is written."""
    name = broken(home, case)
    train = ("train", "g1_motion", "--motion", name, "--iterations", "1", "--logger", "none", "--quiet")

    for arguments in (("motion", "check", name), ("motion", "inspect", name, "--plot", "a.png"), train):
        assert main(list(arguments)) == 2
        out, err = capsys.readouterr()
        assert MESSAGES[case] in err
        assert name in err
        assert (out, err.count("\n"), "\x1b" in err) == ("", 1, False)
    if case not in MENDED:
        assert motion("convert", name, "--out", "new.npz") == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), name in err) == ("", 1, True)
    assert [entry.name for entry in home.iterdir()] == [name]


@pytest.mark.parametrize(("case", "option"), [("wide", "--drop-free-joint"), ("bodies", "--root-body")])
def test_the_converters_option_for_another_projects_form_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], case: str, option: str
) -> None:
    """FR-13."""
    name = broken(home, case)

    assert (motion("check", name), motion("convert", name, "--out", "new.npz")) == (2, 2)

    assert [option in line for line in capsys.readouterr().err.splitlines()] == [True, True]


def test_bodies_in_each_others_place_are_found_and_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FR-01."""
    arrays, bodies = unnamed(builtin("squat")), ("world", *builtin("squat").bodies)
    ankles = [bodies.index(f"{side}_ankle_roll_link") for side in ("left", "right")]
    for key in ("body_pos_w", "body_quat_w"):
        arrays[key][:, ankles] = arrays[key][:, ankles[::-1]]
    save(home / "mixed.npz", arrays)

    assert motion("check", "mixed.npz") == 1
    assert "found: body 'left_ankle_roll_link' is 0.237 m from where" in capsys.readouterr().out
    assert main(["train", "g1_motion", "--motion", "mixed.npz", "--iterations", "1", "--quiet"]) == 2
    assert "body 'left_ankle_roll_link' is 0.237 m from where" in capsys.readouterr().err
    assert [entry.name for entry in home.iterdir()] == ["mixed.npz"]


def test_without_a_command_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert motion() == 0

    out = capsys.readouterr().out
    assert all(name in out for name in ("inspect", "check", "convert", "make"))
