"""Where the fields of a transition lie in one packed float32 row.

A critic's input (its observation, then the action) lies in one piece, and so does all that belongs to the
successor: a sample of several steps takes the columns before it from its first row, the rest from its last.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from domain.errors import ConfigurationError

_ENDS = 3  # reward, terminated, truncated


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Views of packed rows (..., width); no field owns storage.

    ``obs``, ``critic_obs``, ``action`` and the true successors ``next_obs``, ``next_critic_obs`` (before an
    automatic reset) are (..., their width); ``reward``, ``terminated`` and ``truncated`` (0 or 1) are (...,).
    """

    obs: Tensor
    critic_obs: Tensor
    action: Tensor
    next_obs: Tensor
    next_critic_obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLayout:
    """Widths of a transition's fields.

    ``critic | action | obs | next_critic | next_obs | reward | terminated | truncated``, or, where ``critic`` is 0
    because critics see ``obs``, ``obs | action | next_obs | reward | terminated | truncated``.

    Raises:
        ConfigurationError: ``obs`` or ``action`` below 1, or ``critic`` below 0.
    """

    obs: int
    action: int
    critic: int = 0

    def __post_init__(self) -> None:
        for name, width, least in (("obs", self.obs, 1), ("action", self.action, 1), ("critic", self.critic, 0)):
            if width < least:
                raise ConfigurationError(
                    f"replay row: {name} is {width} wide, below {least}: "
                    "give the task's observation and action widths (critic 0: critics see obs)"
                )

    @property
    def successor(self) -> int:
        """First column of ``next_critic | next_obs | reward | terminated | truncated``."""
        return self.critic + self.action + self.obs

    @property
    def width(self) -> int:
        """Columns of a row."""
        return self.successor + self.critic + self.obs + _ENDS

    def columns(self, rows: Tensor) -> Columns:
        """Return views of ``rows``, (..., width).

        Raises:
            ConfigurationError: Rows of another width.
        """
        if rows.shape[-1] != self.width:
            raise ConfigurationError(
                f"replay rows are {rows.shape[-1]} wide, their layout {self.width}: use one layout"
            )
        seen = self.critic or self.obs
        observed, action, obs = rows[..., : self.successor].tensor_split((seen, seen + self.action), dim=-1)
        successor = rows[..., self.successor : -_ENDS]
        next_observed, next_obs = successor.tensor_split((seen,), dim=-1)
        return Columns(
            obs=obs if self.critic else observed,
            critic_obs=observed,
            action=action,
            next_obs=next_obs if self.critic else next_observed,
            next_critic_obs=next_observed,
            reward=rows[..., -3],
            terminated=rows[..., -2],
            truncated=rows[..., -1],
        )


def layout_of(widths: Mapping[str, int], action: int) -> RowLayout:
    """Return the layout for observation groups of these widths: ``actor`` and, if there is one, ``critic``.

    Raises:
        ConfigurationError: There is no group ``actor``.
    """
    if "actor" not in widths:
        raise ConfigurationError(
            f"the task has the observation groups {', '.join(widths) or 'none'}: off-policy learning needs 'actor'"
        )
    return RowLayout(obs=widths["actor"], action=action, critic=widths.get("critic", 0))
