"""Reads a robot's figures from TOML; strict, so that a typing error never becomes another robot."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files

from application.robots.figures import WORLD, Body, Camera, Keyframe, Quat, RobotFigures
from application.robots.reader_bodies import IDENTITY, read_bodies, read_visual
from application.robots.reader_controls import read_actuators, read_sensors
from application.robots.strict_table import StrictTable
from domain.errors import DataError

WIDEST_VIEW = 180.0
MASS_TOLERANCE = 1e-4
"""kg"""


def load_figures(file: str) -> RobotFigures:
    """Read the packaged data file ``file``, e.g. ``go2.toml``.

    Raises:
        DataError: The file is missing, or as ``parse_figures``.
    """
    try:
        text = files("application.robots").joinpath(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{file}: no such robot data file in application.robots: reinstall unilab") from None
    return parse_figures(text, file=file)


def parse_figures(text: str, *, file: str) -> RobotFigures:
    """Read figures from TOML text; ``file`` is only for messages.

    Raises:
        DataError: Broken TOML, unknown or missing keys, wrong values, or names that fit nothing.
    """
    try:
        values: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{file}: not valid TOML: {error}") from error
    top = StrictTable(values, file=file, path="")
    colors = _colors(top)
    bodies = read_bodies(top, colors)
    joints = [body.joint.name for body in bodies if body.joint]
    root = next(body for body in bodies if body.parent == WORLD)
    figures = RobotFigures(
        file=file,
        bodies=bodies,
        actuators=read_actuators(top, joints),
        sensors=read_sensors(top, bodies),
        keyframe=_keyframe(top.table("keyframe"), joints, floating=root.freejoint),
        excludes=_excludes(top, [body.name for body in bodies]),
        scenery=tuple(read_visual(table, colors) for table in top.tables("scenery")),
        colors=colors,
        camera=_camera(top.table("camera")),
    )
    _check_mass(top, bodies)
    top.close()
    return figures


def _colors(top: StrictTable) -> dict[str, Quat]:
    if "colors" not in top:
        return {}
    table = top.table("colors")
    return {name: table.vec4(name) for name in table.names()}


def _check_mass(top: StrictTable, bodies: Sequence[Body]) -> None:
    stated = top.number("total_mass")
    found = sum(body.mass for body in bodies)
    if abs(stated - found) > MASS_TOLERANCE:
        top.fail("total_mass", f"{stated} kg stated, but the bodies weigh {found:.6g} kg: correct one of them")


def _keyframe(table: StrictTable, joints: Sequence[str], *, floating: bool) -> Keyframe:
    positions = table.table("joint_pos")
    keyframe = Keyframe(
        name=table.text("name"),
        root_pos=table.vec3("root_pos") if floating else None,
        root_quat=table.vec4("root_quat", IDENTITY) if floating else None,
        joint_pos={joint: positions.number(joint) for joint in joints},
    )
    positions.close()
    table.close()
    return keyframe


def _excludes(top: StrictTable, bodies: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for table in top.tables("exclude"):
        names = table.texts("bodies")
        if len(names) != 2:
            table.fail("bodies", f"{list(names)}: name exactly two bodies")
        for name in names:
            if name not in bodies:
                table.fail_unknown("bodies", "body", name, bodies)
        pairs.append((names[0], names[1]))
        table.close()
    return tuple(pairs)


def _camera(table: StrictTable) -> Camera:
    camera = Camera(
        name=table.text("name"),
        pos=table.vec3("pos"),
        target=table.vec3("target"),
        fovy=table.number("fovy"),
        follow=table.flag("follow", default=False),
    )
    table.close()
    if camera.pos[:2] == camera.target[:2]:
        table.fail("pos", "straight above or below 'target': move it sideways, so that up is defined")
    if not 0.0 < camera.fovy < WIDEST_VIEW:
        table.fail("fovy", f"{camera.fovy} is outside 0 to 180 degrees")
    return camera
