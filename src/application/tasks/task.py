"""What a task is: a scene, an environment and the settings of the algorithm that trains it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from application.robots.scene import SceneModel
from application.settings import PpoSettings, RuntimeSettings, SceneSettings, TrainSettings
from domain.env_cfg import EnvCfg
from domain.errors import ConfigurationError
from domain.learning.config import FlashSacCfg, SacCfg, Td3Cfg

OffPolicySettings = SacCfg | Td3Cfg | FlashSacCfg
LearnerSettings = PpoSettings | OffPolicySettings
_L = TypeVar("_L", bound=LearnerSettings)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """How a task is trained by one algorithm."""

    train: TrainSettings
    learner: LearnerSettings

    @property
    def runtime(self) -> RuntimeSettings | None:
        """The usual runtime of off-policy training; other algorithms have none."""
        return None if isinstance(self.learner, PpoSettings) else RuntimeSettings()


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task as one algorithm trains it.

    In a configuration the learner's section has the algorithm's name.

    Raises:
        ConfigurationError: An off-policy learner without a runtime, or another one with it.
    """

    name: str
    build_scene: Callable[[float, SceneSettings], SceneModel]
    """Builds the model for a physics step in s."""
    env: EnvCfg
    train: TrainSettings
    learner: LearnerSettings
    runtime: RuntimeSettings | None = None
    scene: SceneSettings = field(default_factory=SceneSettings)
    evaluation: Mapping[str, object] = field(default_factory=dict)
    """Values by configuration path that playing a policy takes instead of those that it was trained with."""

    def __post_init__(self) -> None:
        if isinstance(self.learner, PpoSettings) != (self.runtime is None):
            raise ConfigurationError(
                f"task '{self.name}' declares {type(self.learner).__name__} and runtime {self.runtime}: "
                "off-policy learners have RuntimeSettings, others none"
            )

    def make_scene(self) -> SceneModel:
        """Return the scene that the environment simulates."""
        return self.build_scene(self.env.sim_dt, self.scene)

    def learner_as(self, kind: type[_L]) -> _L:
        """Return the learner's settings as those of one algorithm. Raises ConfigurationError for another's."""
        if not isinstance(self.learner, kind):
            raise ConfigurationError(
                f"task '{self.name}' is resolved with {type(self.learner).__name__}, not {kind.__name__}: "
                "build it for the algorithm that trains it"
            )
        return self.learner

    @property
    def off_policy(self) -> tuple[OffPolicySettings, RuntimeSettings]:
        """Learner and runtime of an off-policy algorithm. Raises ConfigurationError for another one."""
        if isinstance(self.learner, PpoSettings) or self.runtime is None:
            raise ConfigurationError(f"task '{self.name}' is resolved for an algorithm that is not off-policy")
        return self.learner, self.runtime


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task in the list: what it is and which algorithms have values for it."""

    name: str
    summary: str
    algorithms: tuple[str, ...]
    build: Callable[[str], Task]
    """Takes one of ``algorithms``."""
