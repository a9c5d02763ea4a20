"""What a robot module hands to a physics or rendering adapter."""

from dataclasses import dataclass

from domain.physics import ModelIndex


@dataclass(frozen=True, kw_only=True)
class SceneModel:
    """One robot in its surroundings: a text to compile and the index of what the compiler makes of it."""

    mjcf: str
    """A self-contained MJCF document; it refers to no other file."""
    index: ModelIndex
    """Names and addresses as compiled after ``discard_visual``."""
    camera: str
    """The camera that shows the robot best."""
