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

    An empty mask changes nothing. A term that writes one run-time parameter names it by a parameter called ``target``,
    one that writes several by ``targets``; one that finds them itself says which in a property ``targets``.
    """


class CurriculumManager(Stateful):
    """All curriculum terms; they run after every other manager has published its parameters.

    Raises:
        ConfigurationError: A term does not say what to log before it first runs, or two write one parameter.
    """

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
        _check_apart({name: getattr(self._terms[name], "targets", _named(cfg)) for name, cfg in cfgs.items()})

    def children(self) -> list[tuple[str, object]]:
        """Class terms."""
        return [(f"{name}/term", term) for name, term in self._terms.items()]

    def compute(self, mask: Tensor) -> None:
        """Run all terms for the rows under ``mask``; they see the finished episodes."""
        for name, term in self._terms.items():
            value = self.values[name]
            value.copy_(torch.where(mask.any(), term(mask), value))


def targets(cfgs: Mapping[str, CurriculumTermCfg]) -> frozenset[str]:
    """Return the paths of the parameters that the curricula name."""
    return frozenset(path for cfg in cfgs.values() for path in _named(cfg))


def _named(cfg: CurriculumTermCfg) -> tuple[str, ...]:
    """Return the paths in a term's parameters ``target`` and ``targets``."""
    one, several = cfg.params.get("target"), cfg.params.get("targets")
    return (*(() if one is None else (str(one),)), *(() if several is None else map(str, several)))


def _check_apart(written: Mapping[str, tuple[str, ...]]) -> None:
    writer: dict[str, str] = {}
    for name, paths in written.items():
        for path in paths:
            if path in writer:
                raise ConfigurationError(f"curricula.{name} and curricula.{writer[path]} both write {path}: drop one")
            writer[path] = name
