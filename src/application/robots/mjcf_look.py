"""Writes the part of the MJCF that only pictures need: sky, floor pattern, light, camera, materials."""

import math
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from application.robots.figures import Camera, RobotFigures, Vec3
from application.robots.mjcf_numbers import numbers

FLOOR_MATERIAL = "floor tiles"
SHADOW_RATIO = 1.7


def add_quality(top: Element, figures: RobotFigures) -> None:
    """Set frame size, shadow resolution and the ambient light."""
    # The extent sizes the shadow map, so it follows what the camera sees: a smaller one has sharper edges.
    extent = math.dist(figures.camera.pos, figures.camera.target) / SHADOW_RATIO
    SubElement(top, "statistic", extent=repr(extent), center=numbers(figures.root.pos))
    visual = SubElement(top, "visual")
    SubElement(visual, "global", offwidth="1920", offheight="1080")
    SubElement(visual, "quality", shadowsize="1024", offsamples="4")
    SubElement(visual, "headlight", ambient="0.35 0.35 0.35", diffuse="0.45 0.45 0.45", specular="0 0 0")
    SubElement(visual, "map", znear="0.02", zfar="60", shadowclip="1.5")
    SubElement(visual, "rgba", haze="0.93 0.95 0.97 1")


def add_assets(top: Element, figures: RobotFigures, meshes: Mapping[str, Path]) -> None:
    """Add a light gradient sky, a pale two-tone floor, the robot's colors and the files of ``meshes``, by mesh name."""
    asset = SubElement(top, "asset")
    sky = {"type": "skybox", "builtin": "gradient", "rgb1": "0.96 0.97 0.98", "rgb2": "0.62 0.74 0.88"}
    SubElement(asset, "texture", sky, width="256", height="1536")
    tiles = {"type": "2d", "builtin": "checker", "rgb1": "0.88 0.9 0.92", "rgb2": "0.8 0.83 0.86"}
    SubElement(asset, "texture", tiles, name=FLOOR_MATERIAL, width="512", height="512")
    finish = {"specular": "0", "shininess": "0", "reflectance": "0"}
    SubElement(
        asset, "material", finish, name=FLOOR_MATERIAL, texture=FLOOR_MATERIAL, texrepeat="1 1", texuniform="true"
    )
    for name, rgba in figures.colors.items():
        SubElement(asset, "material", name=name, rgba=numbers(rgba), specular="0.3", shininess="0.4")
    for name, path in meshes.items():
        # The volume of a mesh that is not closed is no number; its surface always is one.
        SubElement(asset, "mesh", name=name, file=str(path), inertia="shell")


def add_light(parent: Element, *, follow: bool) -> None:
    """Add one lamp from the upper front that throws the shadow; it moves with a floating robot."""
    lamp = {"pos": "-0.6 -1.0 3", "dir": "0.2 0.33 -1", "diffuse": "0.55 0.55 0.55", "specular": "0.2 0.2 0.2"}
    mode = "trackcom" if follow else "fixed"
    SubElement(parent, "light", lamp, name="lamp", type="directional", castshadow="true", mode=mode)


def add_camera(parent: Element, camera: Camera) -> None:
    """Add the robot's camera; a following one keeps its direction and its offset to the centre of mass."""
    SubElement(
        parent,
        "camera",
        name=camera.name,
        mode="trackcom" if camera.follow else "fixed",
        pos=numbers(camera.pos),
        xyaxes=numbers((*_right(camera), *_up(camera))),
        fovy=repr(camera.fovy),
    )


def _forward(camera: Camera) -> Vec3:
    x, y, z = (end - start for start, end in zip(camera.pos, camera.target, strict=True))
    length = math.hypot(x, y, z)
    return x / length, y / length, z / length


def _right(camera: Camera) -> Vec3:
    x, y, _ = _forward(camera)
    length = math.hypot(x, y)
    return y / length, -x / length, 0.0


def _up(camera: Camera) -> Vec3:
    x, y, z = _forward(camera)
    level = math.hypot(x, y)
    return -z * x / level, -z * y / level, level
