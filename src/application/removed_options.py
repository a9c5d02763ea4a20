"""Options of earlier and other products: they fail with a reason instead of being ignored or called unknown."""

from collections.abc import Mapping
from types import MappingProxyType

from application.config_checks import TABLES
from domain.errors import ConfigurationError

_ONE_DEVICE = "one run learns on one device (--device); PPO takes several through torchrun and RSL-RL"
_ONE_REPLAY = "there is one replay, on the learner's device: set replay_rows and batch_size of the algorithm"
_ONE_CONTRACT = "collector and learner keep one timing contract: an iteration is one env step and its updates"
_ONE_INGRESS = "transitions cross through two slots, each of one env step of all train.num_envs"
_RUNTIME = "it is part of runtime: set runtime.precision"
REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "num_gpus": _ONE_DEVICE,
        "multi_gpu": _ONE_DEVICE,
        "gpu_ids": _ONE_DEVICE,
        "replay_pipeline": _ONE_REPLAY,
        "replay_device": _ONE_REPLAY,
        "replay_buffer_n": _ONE_REPLAY,
        "replay_prefetch_mode": _ONE_REPLAY,
        "sync_mode": _ONE_CONTRACT,
        "sync_collection": _ONE_CONTRACT,
        "env_steps_per_sync": _ONE_CONTRACT,
        "double_buffer": _ONE_INGRESS,
        "replay_ingress_depth": _ONE_INGRESS,
        "replay_ingress_slot_rows": _ONE_INGRESS,
        "inference_slot_capacity": _ONE_INGRESS,
        "collector_metrics_interval": "reports come once every runtime.log_interval iterations",
        "learning_starts": "it counts rows here: set learning_start_rows of the algorithm",
        "use_amp": _RUNTIME,
        "amp": _RUNTIME,
    }
)
"""What to do instead, by the last part of an option's path."""


TERM_TABLES = frozenset({*TABLES, "observations"})
"""A task's terms name their parameters as they like."""


def refuse_removed(path: str) -> None:
    """Raise ConfigurationError, with what there is instead, where the last part of ``path`` is a removed option."""
    last = path.rpartition(".")[2]
    if last in REMOVED and path.partition(".")[0] not in TERM_TABLES:
        raise ConfigurationError(f"{path} does not exist here: {REMOVED[last]}")


def refuse_removed_keys(values: Mapping[str, object], prefix: str = "") -> None:
    """Raise ConfigurationError for the first removed option among the keys of ``values``, at any depth."""
    for name, value in values.items():
        refuse_removed(f"{prefix}{name}")
        if isinstance(value, Mapping):
            refuse_removed_keys(value, f"{prefix}{name}.")
