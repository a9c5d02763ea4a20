"""Reads the bodies of a robot: their tree, and what sits on each of them."""

from collections.abc import Sequence

from application.robots.figures import (
    FLOOR,
    WORLD,
    Body,
    Geom,
    Inertial,
    Joint,
    JointType,
    Mesh,
    Quat,
    Shape,
    Site,
    Vec3,
    Visual,
)
from application.robots.strict_table import StrictTable

IDENTITY: Quat = (1.0, 0.0, 0.0, 0.0)
ORIGIN: Vec3 = (0.0, 0.0, 0.0)
DEFAULT_FRICTION: Vec3 = (1.0, 0.005, 0.0001)
SHAPES: dict[Shape, int] = {"box": 3, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "sphere": 1}
"""How many entries of ``size`` a shape uses."""
JOINT_TYPES: tuple[JointType, ...] = ("hinge", "slide")


def read_bodies(top: StrictTable, colors: dict[str, Quat]) -> tuple[Body, ...]:
    """Return every body, in file order; they form one tree with unique names."""
    tables = top.tables("body")
    if not tables:
        top.fail("body", "missing: a robot needs at least one [[body]]")
    bodies = tuple(_body(table, colors) for table in tables)
    names = [body.name for body in bodies]
    top.require_unique("body", "body", [WORLD, *names])
    top.require_unique("body", "joint", [body.joint.name for body in bodies if body.joint])
    top.require_unique("body", "geom", [FLOOR, *(geom.name for body in bodies for geom in body.geoms)])
    top.require_unique("body", "mesh", [mesh.name for body in bodies for mesh in body.meshes])
    top.require_unique("body", "site", [site.name for body in bodies for site in body.sites])
    for table, body in zip(tables, bodies, strict=True):
        if body.parent not in (WORLD, *names):
            table.fail_unknown("parent", "body", body.parent, [WORLD, *names])
        if body.freejoint and body.parent != WORLD:
            table.fail("freejoint", f"only a child of '{WORLD}' can float: remove the key")
    _check_tree(top, bodies)
    return bodies


def _check_tree(top: StrictTable, bodies: Sequence[Body]) -> None:
    roots = [body.name for body in bodies if body.parent == WORLD]
    if len(roots) != 1:
        top.fail("body", f"{len(roots)} bodies have the parent '{WORLD}' ({', '.join(roots)}): a robot has one root")
    reached = set(roots)
    while True:
        below = {body.name for body in bodies if body.parent in reached} - reached
        if not below:
            break
        reached |= below
    lost = [body.name for body in bodies if body.name not in reached]
    if lost:
        top.fail("body", f"the parents of {', '.join(lost)} form a loop: let one of them hang on the tree")


def _body(table: StrictTable, colors: dict[str, Quat]) -> Body:
    meshes = tuple(_mesh(item, colors) for item in table.tables("meshes"))
    mesh_names = tuple(mesh.name for mesh in meshes)
    body = Body(
        name=table.text("name"),
        parent=table.text("parent"),
        pos=table.vec3("pos", ORIGIN),
        quat=table.vec4("quat", IDENTITY),
        inertial=_inertial(table.table("inertial")) if "inertial" in table else None,
        freejoint=table.flag("freejoint", default=False),
        joint=_joint(table.table("joint")) if "joint" in table else None,
        geoms=tuple(_geom(item) for item in table.tables("geoms")),
        sites=tuple(_site(item) for item in table.tables("sites")),
        visuals=tuple(read_visual(item, colors, mesh_names) for item in table.tables("visuals")),
        meshes=meshes,
    )
    table.close()
    if body.freejoint and body.joint:
        table.fail("joint", "the body floats already: remove 'joint' or 'freejoint'")
    if body.inertial and any(geom.mass for geom in body.geoms):
        table.fail("geoms", "'mass' beside 'inertial' would count for nothing: keep one of them")
    if body.mass <= 0.0:
        table.fail("inertial", "missing, and no geom has a 'mass': the body would have no inertia")
    return body


def _inertial(table: StrictTable) -> Inertial:
    inertial = Inertial(
        pos=table.vec3("pos"),
        quat=table.vec4("quat", IDENTITY),
        mass=table.number("mass"),
        diaginertia=table.vec3("diaginertia"),
    )
    table.close()
    return inertial


def _joint(table: StrictTable) -> Joint:
    joint = Joint(
        name=table.text("name"),
        type=table.choice("type", JOINT_TYPES, "hinge"),
        axis=table.vec3("axis"),
        range=table.limits("range"),
        armature=table.number("armature", 0.0),
        damping=table.number("damping", 0.0),
        frictionloss=table.number("frictionloss", 0.0),
        solreflimit=table.pair("solreflimit") if "solreflimit" in table else None,
    )
    table.close()
    return joint


def _size(table: StrictTable, shape: Shape) -> Vec3:
    size = table.vec3("size")
    used = SHAPES[shape]
    if min(size[:used]) <= 0.0 or any(size[used:]):
        table.fail("size", f"{list(size)}: a {shape} has {used} positive entries, the rest are 0")
    return size


def _geom(table: StrictTable) -> Geom:
    shape = table.choice("type", tuple(SHAPES))
    geom = Geom(
        name=table.text("name"),
        type=shape,
        size=_size(table, shape),
        pos=table.vec3("pos", ORIGIN),
        quat=table.vec4("quat", IDENTITY),
        mass=table.number("mass", 0.0),
        friction=table.vec3("friction", DEFAULT_FRICTION),
        condim=table.whole("condim", 3),
        priority=table.whole("priority", 0),
        contype=table.whole("contype", 1),
        conaffinity=table.whole("conaffinity", 1),
        margin=table.number("margin", 0.0),
    )
    table.close()
    if not (geom.contype or geom.conaffinity):
        table.fail("contype", "the geom collides with nothing: list it under 'visuals' instead")
    return geom


def read_visual(table: StrictTable, colors: dict[str, Quat], meshes: tuple[str, ...] = ()) -> Visual:
    """Return one shape that is only drawn; the first of its body's ``meshes`` replaces it, or the one that it names."""
    shape = table.choice("type", tuple(SHAPES))
    visual = Visual(
        type=shape,
        size=_size(table, shape),
        pos=table.vec3("pos", ORIGIN),
        quat=table.vec4("quat", IDENTITY),
        color=table.choice("color", tuple(colors)),
        mesh=table.choice("mesh", meshes, meshes[0]) if meshes else None,
    )
    table.close()
    return visual


def _mesh(table: StrictTable, colors: dict[str, Quat]) -> Mesh:
    mesh = Mesh(
        name=table.text("name"),
        pos=table.vec3("pos", ORIGIN),
        quat=table.vec4("quat", IDENTITY),
        color=table.choice("color", tuple(colors)),
    )
    table.close()
    return mesh


def _site(table: StrictTable) -> Site:
    site = Site(name=table.text("name"), pos=table.vec3("pos", ORIGIN), quat=table.vec4("quat", IDENTITY))
    table.close()
    return site
