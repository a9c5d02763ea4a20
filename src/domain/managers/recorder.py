"""Recorders watch an environment from inside its step, e.g. to write a data set; they change nothing."""

from collections.abc import Mapping

from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful
from domain.managers.terms import TermCfg, bind_term
from domain.view import EnvView


class RecorderTermCfg(TermCfg):
    """A recorder; ``func`` is a subclass of RecorderTerm."""


class RecorderTerm:
    """The moments at which a recorder may look; each does nothing by default.

    Masks are (num_envs,) bool. On a device-resident backend the calls are captured with the step, so
    a recorder keeps device tensors and leaves host work to ``close``.
    """

    def __init__(self, env: EnvView) -> None:
        self.env = env

    def pre_reset(self, mask: Tensor) -> None:
        """Look at rows that are about to reset, except at the very first reset."""

    def post_reset(self, mask: Tensor) -> None:
        """Look at rows that have just been reset."""

    def post_step(self, observations: Mapping[str, Tensor], reward: Tensor, done: Tensor) -> None:
        """Look at a finished step: observations for the next action, reward and done rows."""

    def close(self) -> None:
        """Finish."""


class RecorderManager(Stateful):
    """All recorders. Raises ConfigurationError for a term that is no RecorderTerm."""

    def __init__(self, cfgs: Mapping[str, RecorderTermCfg], env: EnvView) -> None:
        super().__init__()
        self._terms: dict[str, RecorderTerm] = {}
        for name, cfg in cfgs.items():
            term = bind_term(cfg, env, f"recorders.{name}")
            if not isinstance(term, RecorderTerm):
                raise ConfigurationError(f"recorders.{name}: {cfg.func} is not a recorder term")
            self._terms[name] = term

    def children(self) -> list[tuple[str, object]]:
        """Recorders."""
        return list(self._terms.items())

    def pre_reset(self, mask: Tensor) -> None:
        """Tell all recorders of rows about to reset."""
        for term in self._terms.values():
            term.pre_reset(mask)

    def post_reset(self, mask: Tensor) -> None:
        """Tell all recorders of rows that were reset."""
        for term in self._terms.values():
            term.post_reset(mask)

    def post_step(self, observations: Mapping[str, Tensor], reward: Tensor, done: Tensor) -> None:
        """Tell all recorders of a finished step."""
        for term in self._terms.values():
            term.post_step(observations, reward, done)

    def close(self) -> None:
        """Close all recorders."""
        for term in self._terms.values():
            term.close()
