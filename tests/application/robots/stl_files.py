"""Small mesh files in the vendors' format."""

import struct
from pathlib import Path

Point = tuple[float, float, float]


def write_stl(path: Path, *, size: float = 0.1) -> None:
    """Write a tetrahedron with edges of ``size`` m along the axes as a binary STL file."""
    origin: Point = (0.0, 0.0, 0.0)
    x, y, z = (size, 0.0, 0.0), (0.0, size, 0.0), (0.0, 0.0, size)
    faces = [(origin, y, x), (origin, x, z), (origin, z, y), (x, y, z)]
    with path.open("wb") as file:
        file.write(bytes(80) + struct.pack("<I", len(faces)))
        for face in faces:
            file.write(struct.pack("<12fH", *origin, *(value for corner in face for value in corner), 0))
