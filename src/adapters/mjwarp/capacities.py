"""How much memory contacts and constraints get, which MJWarp allocates once."""

from dataclasses import dataclass

from domain.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Capacities:
    """Sizes of MJWarp's contact and constraint buffers; what exceeds them is dropped and the physics is wrong."""

    contacts: int
    """Contacts and candidate pairs of one env on average: all envs share one pool."""
    constraints: int
    """Constraint rows that one env may have."""

    def __post_init__(self) -> None:
        for name in ("contacts", "constraints"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"capacities.{name} is {getattr(self, name)}: at least 1 is needed")
