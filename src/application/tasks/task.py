"""What a task is: a scene, an environment and the settings of the algorithms that train it."""

from collections.abc import Callable
from dataclasses import dataclass

from application.robots.scene import SceneModel
from application.settings import PpoSettings, TrainSettings
from domain.env import EnvCfg


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task as one algorithm trains it."""

    name: str
    scene: Callable[[float], SceneModel]
    """Builds the model for a physics step in s."""
    env: EnvCfg
    train: TrainSettings
    ppo: PpoSettings


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task in the list: what it is and which algorithms have values for it."""

    name: str
    summary: str
    algorithms: tuple[str, ...]
    build: Callable[[str], Task]
    """Takes one of ``algorithms``."""
