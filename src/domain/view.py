"""What a term sees of its environment: stable tensors, names, random numbers and staged writes."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from domain.entity import Entity
from domain.errors import ConfigurationError, unknown_name
from domain.motion.clip import MotionClip
from domain.physics import PhysicsBackend
from domain.rng import TorchManagerRng
from domain.writes import StateWrites

_T = TypeVar("_T")


class EnvView:
    """The environment as its terms see it.

    Every tensor has (num_envs, ...) rows on ``device`` and keeps its storage for the life of the
    environment; ``step_count`` is a 0-d int64 tensor. Managers publish what others may read:
    ``commands`` by name, ``actions`` (current, previous and the one before). ``clips`` are the reference motions that
    were given to the environment.

    Raises:
        ConfigurationError: The random stream lives on another device, or has other rows, than the backend.
    """

    def __init__(
        self,
        backend: PhysicsBackend,
        rng: TorchManagerRng,
        *,
        decimation: int,
        max_episode_length: int,
        clips: Sequence[MotionClip] = (),
    ) -> None:
        if rng.device != backend.device or rng.num_envs != backend.num_envs:
            raise ConfigurationError(
                f"the random stream has {rng.num_envs} rows on {rng.device}, "
                f"the backend {backend.num_envs} on {backend.device}: make them equal"
            )
        self.backend = backend
        self.rng = rng
        self.num_envs = backend.num_envs
        self.device = backend.device
        self.index = backend.index
        self.state = backend.state
        self.step_dt = backend.index.timestep * decimation
        self.max_episode_length = max_episode_length
        self.writes = StateWrites(backend)
        self.entities = {name: Entity(e, backend.index, backend.state) for name, e in backend.index.entities.items()}
        self.sensors = {
            name: backend.state.sensordata[:, slot.adr : slot.adr + slot.dim]
            for name, slot in backend.index.sensors.items()
        }
        self.step_count = torch.zeros((), dtype=torch.int64, device=self.device)
        self.episode_length = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self.terminated = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self.truncated = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self.clips = tuple(clips)
        self.commands: dict[str, Tensor] = {}
        self.command_terms: dict[str, object] = {}
        self.tunables: dict[str, Tensor] = {}
        self._parsers: dict[str, Callable[[object, str], Tensor]] = {}
        empty = torch.zeros(self.num_envs, 0, device=self.device)
        self.action, self.previous_action, self.action_before_previous = empty, empty, empty

    def entity(self, name: str) -> Entity:
        """Return an entity. Raises ConfigurationError for an unknown name."""
        if name not in self.entities:
            raise ConfigurationError(unknown_name("entity", name, self.entities))
        return self.entities[name]

    def sensor(self, name: str) -> Tensor:
        """Return a sensor's view, (num_envs, dim). Raises ConfigurationError where the model lacks it."""
        if name not in self.sensors:
            raise ConfigurationError(unknown_name("sensor", name, self.sensors))
        return self.sensors[name]

    def command(self, name: str) -> Tensor:
        """Return a command, (num_envs, dim). Raises ConfigurationError for an unknown name."""
        if name not in self.commands:
            raise ConfigurationError(unknown_name("command", name, self.commands))
        return self.commands[name]

    def command_term(self, name: str, kind: type[_T]) -> _T:
        """Return the term behind a command. Raises ConfigurationError for an unknown name or another kind of term."""
        self.command(name)
        term = self.command_terms[name]
        if not isinstance(term, kind):
            raise ConfigurationError(f"command '{name}' is a {type(term).__name__}, and a {kind.__name__} is needed")
        return term

    def tunable(self, path: str) -> Tensor:
        """Return the device tensor behind a run-time parameter, e.g. ``rewards.action_rate.weight``.

        Raises:
            ConfigurationError: No parameter has that path, or it is fixed at construction.
        """
        if path not in self.tunables:
            raise ConfigurationError(unknown_name("run-time parameter", path, self.tunables))
        return self.tunables[path]

    def tunable_value(self, path: str, value: object, where: str) -> Tensor:
        """Return ``value``, written at ``where`` in the configuration, as a tensor for the parameter at ``path``.

        Raises:
            ConfigurationError: The parameter is unknown, or could not be declared with that value.
        """
        parameter = self.tunable(path)
        tensor = self._parsers[path](value, where)
        if tensor.shape != parameter.shape:
            raise ConfigurationError(f"{where} has shape {tuple(tensor.shape)}, {path} has {tuple(parameter.shape)}")
        return tensor

    def publish_tunable(self, path: str, value: Tensor, parse: Callable[[object, str], Tensor]) -> None:
        """Make a device tensor known under its configuration path; ``parse`` checks and converts a declared value."""
        self.tunables[path] = value
        self._parsers[path] = parse
