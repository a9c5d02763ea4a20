"""Curricula change run-time parameters of other managers while training goes on."""

from collections.abc import Mapping

import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.state import Stateful
from domain.managers.terms import TermCfg, bind_term
from domain.view import EnvView


class CurriculumTermCfg(TermCfg):
    """A term called with the (num_envs,) bool mask of rows about to reset; it returns a 0-d value to log.

    An empty mask changes nothing. Terms that write a run-time parameter name it by a parameter called ``target``.
    """


class CurriculumManager(Stateful):
    """All curriculum terms; they run after every other manager has published its parameters."""

    def __init__(self, cfgs: Mapping[str, CurriculumTermCfg], env: EnvView) -> None:
        super().__init__()
        self._terms = {name: bind_term(cfg, env, f"curricula.{name}") for name, cfg in cfgs.items()}
        self.values: dict[str, Tensor] = {}
        for name in cfgs:
            initial = getattr(self._terms[name], "initial", None)
            if not isinstance(initial, Tensor) or initial.dim() != 0:
                raise ConfigurationError(
                    f"curricula.{name}: a curriculum is a class with a property `initial`, the 0-d tensor to log "
                    f"before it first runs, not {initial}"
                )
            self.values[name] = self.keep(name, initial.clone())

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return [(f"{name}/term", term) for name, term in self._terms.items()]

    def compute(self, mask: Tensor) -> None:
        """Run all terms for the rows under ``mask``; they see the finished episodes."""
        for name, term in self._terms.items():
            value = self.values[name]
            value.copy_(torch.where(mask.any(), term(mask), value))


def targets(cfgs: Mapping[str, CurriculumTermCfg]) -> frozenset[str]:
    """Return the paths of the parameters that curricula write."""
    return frozenset(str(cfg.params["target"]) for cfg in cfgs.values() if "target" in cfg.params)
