"""The reader refuses whatever it does not understand and says where it stands."""

import pytest

from application.robots.figures import Motor, PositionServo
from application.robots.reader import load_figures, parse_figures
from domain.errors import DataError


def test_the_toy_robot_is_read(toy: str) -> None:
    figures = parse_figures(toy, file="toy.toml")

    assert [body.name for body in figures.kinematic_order()] == ["trunk", "left_thigh", "left_shank", "right"]
    assert figures.excludes == (("left_thigh", "right"),)
    motor, knee, _ = figures.actuators
    assert motor == Motor(name="right_motor", joint="right_slide", gear=3.0, forcerange=None, ctrlrange=None)
    assert knee == PositionServo(
        name="knee_servo", joint="left_knee", kp=20.0, kd=2.0, forcerange=(-5.0, 5.0), ctrlrange=None
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kp = 20.0", "kp = 20.0\nkq = 1.0", r"toy.toml: table 'actuator\[knee_servo\]', key 'kq': unknown key 'kq'"),
        ("total_mass = 4.0", "total_mas = 4.0", "key 'total_mass': missing"),
        ("total_mass = 4.0", "total_mass = 4.2", "4.2 kg stated, but the bodies weigh 4 kg"),
        ("total_mass = 4.0", 'total_mass = "4.0"', "'4.0' is not a finite number"),
        ("total_mass = 4.0", "total_mass = nan", "nan is not a finite number"),
        ("mass = 1.0, diag", "mass = true, diag", r"'body\[trunk\].inertial', key 'mass': True is not a finite"),
        ("left_knee = 0.1\n", "", "table 'keyframe.joint_pos', key 'left_knee': missing: add it"),
        ("left_knee = 0.1", "left_knee = 0.1\nleft_toe = 0.0", "unknown key 'left_toe'"),
        ('parent = "left_thigh"', 'parent = "left_tigh"', "unknown body 'left_tigh': did you mean 'left_thigh'?"),
        ('parent = "left_thigh"', 'parent = "left_shank"', "the parents of left_shank form a loop"),
        ('parent = "left_thigh"', 'parent = "world"', r"2 bodies have the parent 'world' \(trunk, left_shank\)"),
        ('name = "left_shank"\nparent', 'name = "right"\nparent', "the body name 'right' is used 2 times"),
        ('joint = "left_knee"', 'joint = "left_kne"', "key 'joint': unknown joint 'left_kne': did you mean"),
        ('site = "imu"', 'site = "imo"', r"table 'sensor\[gyro\]', key 'site': unknown site 'imo'"),
        ('site = "imu"', 'geom = "trunk"', "key 'geom': a gyro sits on a site"),
        ('type = "framequat"', 'type = "framequad"', "unknown type 'framequad': did you mean 'framequat'?"),
        ('data = ["found", "force"]', 'data = ["force", "found"]', "in the order found, force"),
        ('data = ["found", "force"]', 'data = ["fund"]', "unknown contact field 'fund'"),
        ('color = "red"', 'color = "rad"', r"'body\[right\].visuals\[0\]', key 'color': unknown color 'rad'"),
        ("size = [0.2, 0.1, 0.1]", "size = [0.2, 0.1]", "is not a list of 3 numbers"),
        ("size = [0.2, 0.1, 0.1]", "size = [0.2, 0.1, 0.0]", "a box has 3 positive entries, the rest are 0"),
        ("size = [0.2, 0.1, 0.1]", "size = [0.2, 0.1, 0.1], mass = 1.0", "'mass' beside 'inertial'"),
        ("size = [0.2, 0.1, 0.1]", "size = [0.2, 0.1, 0.1], contype = 0, conaffinity = 0", "under 'visuals' instead"),
        ("size = [0.2, 0.1, 0.1]", "size = [0.2, 0.1, 0.1], condim = 3.0", "3.0 is not a whole number"),
        ("size = [0.1, 0.0, 0.0], mass = 1.0", "size = [0.1, 0.0, 0.0]", "the body would have no inertia"),
        ("range = [-1.0, 1.0]", "range = [1.0, -1.0]", r"\[1.0, -1.0\] is no range"),
        ("freejoint = true", 'freejoint = "yes"', "'yes' is not a boolean: write true or false"),
        ("pos = [0.0, 0.3, 0.0]", "freejoint = true", "the body floats already"),
        ('bodies = ["left_thigh", "right"]', 'bodies = ["left_thigh"]', "name exactly two bodies"),
        ('bodies = ["left_thigh", "right"]', 'bodies = ["left_thigh", "rigt"]', "did you mean 'right'?"),
        ("fovy = 45.0", "fovy = 0.0", "0.0 is outside 0 to 180 degrees"),
        ("target = [0.0, 0.0, 0.0]", "target = [1.0, -1.0, 0.0]", "move it sideways"),
        ("visuals = [{", 'meshes = [{ name = "a", color = "rad" }]\nvisuals = [{', "unknown color 'rad'"),
        ("visuals = [{", 'meshes = [{ name = "a", color = "red" }]\nvisuals = [{ mesh = "b",', "unknown mesh 'b'"),
        ("visuals = [{", 'visuals = [{ mesh = "a",', r"'body\[right\].visuals\[0\]', key 'mesh': unknown key 'mesh'"),
        ("[colors]", "[colors", "toy.toml: not valid TOML"),
    ],
)
def test_a_mistake_is_refused_with_its_place(toy: str, old: str, new: str, message: str) -> None:
    broken = toy.replace(old, new, 1)

    assert broken != toy
    with pytest.raises(DataError, match=message):
        parse_figures(broken, file="toy.toml")


def test_only_the_root_can_float(toy: str) -> None:
    floating = toy.replace(
        """joint = { name = "left_knee", axis = [0.0, 1.0, 0.0], range = [-2.0, 0.5] }""", "freejoint = true"
    )

    with pytest.raises(DataError, match="key 'freejoint': only a child of 'world' can float"):
        parse_figures(floating, file="toy.toml")


def test_a_fixed_base_has_no_root_pose(toy: str) -> None:
    fixed = toy.replace("freejoint = true\n", "")

    with pytest.raises(DataError, match="table 'keyframe', key 'root_pos': unknown key"):
        parse_figures(fixed, file="toy.toml")


def test_one_mesh_on_two_bodies_is_refused(toy: str) -> None:
    mesh = 'meshes = [{ name = "shell", color = "red" }]\n'
    doubled = toy.replace("visuals = [{", mesh + "visuals = [{").replace("sites = [{", mesh + "sites = [{")

    with pytest.raises(DataError, match="the mesh name 'shell' is used 2 times"):
        parse_figures(doubled, file="toy.toml")


def test_the_first_mesh_of_a_body_replaces_a_visual_that_names_none(toy: str) -> None:
    meshes = 'meshes = [{ name = "a", color = "red" }, { name = "b", color = "red" }]\n'
    visuals = 'visuals = [{ type = "sphere", size = [0.1, 0.0, 0.0], color = "red", mesh = "b" }, {'

    figures = parse_figures(toy.replace("visuals = [{", meshes + visuals), file="toy.toml")

    right = next(body for body in figures.bodies if body.name == "right")
    assert [visual.mesh for visual in right.visuals] == ["b", "a"]


def test_a_missing_data_file_is_named() -> None:
    with pytest.raises(DataError, match="go3.toml: no such robot data file"):
        load_figures("go3.toml")
