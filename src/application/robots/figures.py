"""A robot's published figures: typed, immutable, in the units of MJCF.

Metres, kilograms, radians, newtons; quaternions are (w, x, y, z). A body's pose is relative to its parent,
everything else on a body is relative to that body.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Vec3: TypeAlias = tuple[float, float, float]
Quat: TypeAlias = tuple[float, float, float, float]
Range: TypeAlias = tuple[float, float]
Shape: TypeAlias = Literal["box", "capsule", "cylinder", "ellipsoid", "sphere"]
JointType: TypeAlias = Literal["hinge", "slide"]
FrameType: TypeAlias = Literal["site", "geom", "body"]

WORLD = "world"
FLOOR = "floor"


@dataclass(frozen=True, kw_only=True)
class Inertial:
    """A body's mass (kg), centre of mass, and principal moments (kg m^2) in the frame ``quat``."""

    pos: Vec3
    quat: Quat
    mass: float
    diaginertia: Vec3


@dataclass(frozen=True, kw_only=True)
class Joint:
    """One degree of freedom; hinge figures in rad and N m, slide figures in m and N."""

    name: str
    type: JointType
    axis: Vec3
    range: Range | None
    """None where unlimited."""
    armature: float
    damping: float
    frictionloss: float
    solreflimit: Range | None
    """Time constant (s) and damping ratio of the limit; None for the engine's default."""


@dataclass(frozen=True, kw_only=True)
class Geom:
    """A collision shape; ``size`` as in MJCF, unused entries 0."""

    name: str
    type: Shape
    size: Vec3
    pos: Vec3
    quat: Quat
    mass: float
    """kg; 0 where the body states its inertia."""
    friction: Vec3
    condim: int
    priority: int
    contype: int
    conaffinity: int
    margin: float


@dataclass(frozen=True, kw_only=True)
class Visual:
    """A shape that is only drawn."""

    type: Shape
    size: Vec3
    pos: Vec3
    quat: Quat
    color: str
    """A key of the robot's colors."""
    mesh: str | None
    """The mesh of its body that is drawn instead, where the vendor's files are at hand."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """A mesh of the vendor that is only drawn; its file is not part of this package."""

    name: str
    """File name without its extension and its revision."""
    pos: Vec3
    quat: Quat
    color: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """A named frame on a body."""

    name: str
    pos: Vec3
    quat: Quat


@dataclass(frozen=True, kw_only=True)
class Body:
    """A rigid link with at most one joint to its parent."""

    name: str
    parent: str
    pos: Vec3
    quat: Quat
    inertial: Inertial | None
    """None where the geoms carry the mass."""
    freejoint: bool
    joint: Joint | None
    geoms: tuple[Geom, ...]
    sites: tuple[Site, ...]
    visuals: tuple[Visual, ...]
    meshes: tuple[Mesh, ...]

    @property
    def mass(self) -> float:
        """In kg."""
        return self.inertial.mass if self.inertial else sum(geom.mass for geom in self.geoms)


@dataclass(frozen=True, kw_only=True)
class PositionServo:
    """An actuator with torque kp (control - position) - kd velocity."""

    name: str
    joint: str
    kp: float
    kd: float
    forcerange: Range | None
    """None where unlimited."""
    ctrlrange: Range | None


@dataclass(frozen=True, kw_only=True)
class Motor:
    """An actuator with torque (or force) gear * control."""

    name: str
    joint: str
    gear: float
    forcerange: Range | None
    ctrlrange: Range | None


@dataclass(frozen=True, kw_only=True)
class FrameSensor:
    """A sensor of one frame, e.g. ``gyro`` of a site or ``framepos`` of a geom."""

    name: str
    type: str
    frame: FrameType
    target: str
    cutoff: float
    """Readings are clamped to +-cutoff; 0 for no clamp."""


@dataclass(frozen=True, kw_only=True)
class ContactSensor:
    """The nearest contact between a geom and another; zeros while there is none."""

    name: str
    geom: str
    against: str
    data: tuple[str, ...]
    """Contact fields in MuJoCo's order, e.g. ``found``."""


@dataclass(frozen=True, kw_only=True)
class Keyframe:
    """The default state."""

    name: str
    root_pos: Vec3 | None
    """World frame; None for a fixed base, as ``root_quat``."""
    root_quat: Quat | None
    joint_pos: dict[str, float]
    """Every joint, rad or m."""


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A view from ``pos`` towards ``target``, in the frame of the root body if it follows, else of the world."""

    name: str
    pos: Vec3
    target: Vec3
    fovy: float
    """Vertical field of view, degrees."""
    follow: bool


@dataclass(frozen=True, kw_only=True)
class RobotFigures:
    """Everything that one data file states; consistent, as the reader checks it."""

    file: str
    bodies: tuple[Body, ...]
    actuators: tuple[PositionServo | Motor, ...]
    sensors: tuple[FrameSensor | ContactSensor, ...]
    keyframe: Keyframe
    excludes: tuple[tuple[str, str], ...]
    """Pairs of bodies that never collide."""
    scenery: tuple[Visual, ...]
    """Drawn in the world, not on the robot."""
    colors: dict[str, Quat]
    """Name to red, green, blue and opacity, each in [0, 1]."""
    camera: Camera

    @property
    def root(self) -> Body:
        """The only child of the world."""
        return next(self.children(WORLD))

    def children(self, parent: str) -> Iterator[Body]:
        """Yield the bodies on ``parent``, in file order."""
        return (body for body in self.bodies if body.parent == parent)

    def kinematic_order(self, parent: str = WORLD) -> Iterator[Body]:
        """Yield the bodies below ``parent`` depth first: MuJoCo's numbering."""
        for body in self.children(parent):
            yield body
            yield from self.kinematic_order(body.name)
