"""The Unitree G1 with 29 joints on a floor."""

from application.robots.builder import build_scene
from application.robots.reader import load_figures
from application.robots.scene import SceneModel
from application.robots.scene_options import SceneOptions

FEET = ("left", "right")
"""In joint order."""
DEFAULT_SENSORS: tuple[str, ...] = (
    "pelvis_local_linvel",
    "torso_gyro",
    "torso_upvector",
    *(f"{foot}_foot_pos" for foot in FEET),
    *(f"{foot}_foot_quat" for foot in FEET),
    *(f"{foot}_foot_contact_{corner}" for foot in FEET for corner in range(4)),
)
"""What walking on flat ground reads: 31 values."""


def build(
    *,
    timestep: float,
    sensors: tuple[str, ...] = DEFAULT_SENSORS,
    bodies: tuple[str, ...] = (),
    mesh_dir: str | None = None,
) -> SceneModel:
    """Build the scene with ``timestep`` seconds a physics step, ``sensors`` in that order, then those of ``bodies``.

    Joints run left leg, right leg, waist, left arm, right arm; actuators have the order and the names of the
    joints. The servos damp, the joints do not.

    Args:
        timestep: Physics step, s; the published model uses 1/150.
        sensors: What ``sensordata`` starts with.
        bodies: Links whose position, orientation and velocity are sensors too, see ``SceneOptions.bodies``.
        mesh_dir: Folder with Unitree's own STL meshes, which renderers then draw; physics is the same without. A file
            is named for its link, ``left_hip_pitch_link.STL`` or ``torso_link_rev_1_0.STL``, or is one of
            ``pelvis_contour_link``, ``head_link``, ``logo_link``, ``left_rubber_hand`` and ``right_rubber_hand``. What
            has no file keeps its simple shapes; None draws these alone.

    Raises:
        ConfigurationError: A sensor or body that the robot lacks, a time step that is not positive, or a ``mesh_dir``
            that is missing or holds none of these files.
    """
    options = SceneOptions(
        timestep=timestep,
        sensors=sensors,
        bodies=bodies,
        integrator="implicitfast",
        # With the engine's 100 and 50 a GPU waits in each step for the few robots whose falls need so many.
        iterations=15,
        ls_iterations=20,
        mesh_dir=mesh_dir,
    )
    return build_scene(load_figures("g1.toml"), options)
