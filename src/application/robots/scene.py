"""What a robot module hands to a physics or rendering adapter."""

from dataclasses import dataclass

from domain.physics import ModelIndex


@dataclass(frozen=True, kw_only=True)
class SceneModel:
    """One robot in its surroundings: a text to compile and the index of what the compiler makes of it."""

    mjcf: str
    """A self-contained MJCF document; it refers to no other file."""
    drawn: str | None = None
    """The same scene with the vendor's meshes, which it refers to as files: for renderers, physics never loads it.

    None where ``mjcf`` is what is drawn.
    """
    index: ModelIndex
    """Names and addresses as compiled after ``discard_visual``."""
    camera: str
    """The camera that shows the robot best."""
