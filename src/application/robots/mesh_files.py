"""Finds the vendor's mesh files, which are not part of this package, in a folder that the user names."""

from pathlib import Path

from application.robots.figures import RobotFigures
from domain.errors import ConfigurationError

EXTENSION = ".stl"
REVISION = "_rev_1_0"
_SHOWN = 3


def find_meshes(figures: RobotFigures, folder: str) -> dict[str, Path]:
    """Return the files of the robot's meshes in ``folder``, by mesh name; absent ones are left out.

    A file is named ``<mesh>.STL`` or ``<mesh>_rev_1_0.STL``, in capitals or not; of both, the revised one counts.

    Raises:
        ConfigurationError: The robot has no meshes, or the folder is missing or holds none of them.
    """
    names = [mesh.name for body in figures.kinematic_order() for mesh in body.meshes]
    if not names:
        raise ConfigurationError(f"mesh_dir is '{folder}', but {figures.file} lists no meshes: leave mesh_dir out")
    expected = ", ".join(f"{name}.STL" for name in names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    root = Path(folder).expanduser().resolve()
    if not root.is_dir():
        raise ConfigurationError(f"mesh_dir '{folder}' is no folder: name the one with {expected}, or leave it out")
    files = {path.stem: path for path in sorted(root.iterdir()) if path.suffix.lower() == EXTENSION and path.is_file()}
    found = {}
    for name in names:
        path = files.get(name + REVISION, files.get(name))
        if path is not None:
            found[name] = path
    if not found:
        raise ConfigurationError(
            f"mesh_dir '{folder}' has no mesh of {figures.file} (expected {expected}): name the folder with these "
            "files, or leave it out"
        )
    return found
