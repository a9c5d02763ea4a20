"""A small robot and the way adapters compile a scene."""

from collections.abc import Callable

import mujoco
import pytest

from application.robots.scene import SceneModel

TOY = """
total_mass = 4.0

[colors]
red = [1.0, 0.0, 0.0, 1.0]

[camera]
name = "near"
pos = [1.0, -1.0, 1.0]
target = [0.0, 0.0, 0.0]
fovy = 45.0
follow = true

[keyframe]
name = "home"
root_pos = [0.0, 0.0, 2.0]

[keyframe.joint_pos]
left_knee = 0.1
left_hip = 0.2
right_slide = 0.3

[[body]]
name = "trunk"
parent = "world"
freejoint = true
inertial = { pos = [0.0, 0.0, 0.0], mass = 1.0, diaginertia = [1.0, 1.0, 1.0] }
geoms = [{ name = "trunk", type = "box", size = [0.2, 0.1, 0.1] }]
sites = [{ name = "imu" }]

[[body]]
name = "left_thigh"
parent = "trunk"
pos = [0.0, 0.3, 0.0]
joint = { name = "left_hip", axis = [0.0, 1.0, 0.0], range = [-1.0, 1.0] }
geoms = [{ name = "left_thigh", type = "capsule", size = [0.05, 0.1, 0.0], mass = 1.0 }]

[[body]]
name = "right"
parent = "trunk"
pos = [0.0, -0.3, 0.0]
joint = { name = "right_slide", type = "slide", axis = [0.0, 0.0, 1.0] }
geoms = [{ name = "right", type = "sphere", size = [0.1, 0.0, 0.0], mass = 1.0 }]
visuals = [{ type = "sphere", size = [0.11, 0.0, 0.0], color = "red" }]

[[body]]
name = "left_shank"
parent = "left_thigh"
pos = [0.0, 0.0, -0.4]
joint = { name = "left_knee", axis = [0.0, 1.0, 0.0], range = [-2.0, 0.5] }
geoms = [{ name = "left_shank", type = "sphere", size = [0.1, 0.0, 0.0], mass = 1.0 }]

[[actuator]]
name = "right_motor"
joint = "right_slide"
gear = 3.0

[[actuator]]
name = "knee_servo"
joint = "left_knee"
kp = 20.0
kd = 2.0
forcerange = [-5.0, 5.0]

[[actuator]]
name = "hip_servo"
joint = "left_hip"
kp = 10.0
forcerange = [0.0, 0.0]
ctrlrange = [-1.0, 1.0]

[[sensor]]
name = "gyro"
type = "gyro"
site = "imu"

[[sensor]]
name = "shank_quat"
type = "framequat"
body = "left_shank"

[[sensor]]
name = "shank_touch"
type = "contact"
geom = "left_shank"
against = "floor"
data = ["found", "force"]

[[exclude]]
bodies = ["left_thigh", "right"]
"""


@pytest.fixture
def toy() -> str:
    """A floating trunk, file order not depth first, actuators in reverse joint order."""
    return TOY


@pytest.fixture
def compiled() -> Callable[..., mujoco.MjModel]:
    """Compile a scene as a physics adapter does, or with its drawn shapes."""

    def compile_scene(scene: SceneModel, *, visuals: bool = False) -> mujoco.MjModel:
        spec = mujoco.MjSpec.from_string(scene.mjcf)
        if not visuals:
            spec.discard_visual()
        return spec.compile()

    return compile_scene
