"""Which keys ``--set`` takes, and what it says about the others."""

import pytest

from application.overrides import apply_overrides, leaf_paths
from domain.errors import ConfigurationError

VALUES: dict[str, object] = {
    "schema_version": 1,
    "task": "walk",
    "train": {"num_envs": 8, "seed": 1},
    "rewards": {"alive": {"weight": 1.0, "params": {}}, "hips": {"weight": 1.0, "params": {"std": {".*_hip.x": 0.1}}}},
    "observations": {"noise": {"kind": "uniform"}, "delay": None},
    "ppo": {"learning_rate": 1e-3},
}


def test_a_value_is_replaced_in_a_copy() -> None:
    result = apply_overrides(VALUES, ["rewards.alive.weight=2.5", "ppo.learning_rate=1e-4"])

    assert result["rewards"] == {**VALUES["rewards"], "alive": {"weight": 2.5, "params": {}}}  # type: ignore[dict-item]
    assert result["ppo"] == {"learning_rate": 1e-4}
    assert VALUES["ppo"] == {"learning_rate": 1e-3}


def test_leaves_are_listed_in_order() -> None:
    assert list(leaf_paths({"a": {"b": 1, "c": {}}, "d": [1]})) == ["a.b", "a.c", "d"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rewards.alive.wieght=1", "unknown key 'rewards.alive.wieght': did you mean 'rewards.alive.weight'?"),
        ("reward.alive.weight=1", "did you mean 'rewards.alive.weight'?"),
        ("learning_rate=1", "did you mean 'ppo.learning_rate'?"),
        ("algo.learning_rat=1", "did you mean 'ppo.learning_rate'?"),
        ("ppo.learning_rate.x=1", "unknown key 'ppo.learning_rate.x': did you mean 'ppo.learning_rate'?"),
        ("zzz=1", "unknown key 'zzz': groups are train, rewards, observations, ppo"),
        ("rewards.alive=1", "rewards.alive is a group: set one of its keys, rewards.alive.weight"),
        ("observations.delay.lag=1", "observations.delay.lag cannot be set: observations.delay is null"),
        ("task=run", "task cannot be set by --set: name the task"),
        ("training.num_gpus=2", "training.num_gpus does not exist here: one run learns on one device"),
        ("training.replay_pipeline=cpu_pinned_double_buffer", "training.replay_pipeline does not exist here"),
        ("sync_mode=x", "sync_mode does not exist here: collector and learner keep one timing contract"),
        ("train.num_gpus=1", "train.num_gpus does not exist here"),
        ("runtime.double_buffer=1", "runtime.double_buffer does not exist here: transitions"),
        ("train.num_envs", "'train.num_envs' sets nothing: write key=value"),
        ("=1", "'=1' sets nothing"),
        ("train.num_envs=", "train.num_envs: nothing follows '='"),
        ("train.num_envs=[1", r"train.num_envs: cannot read the value \[1"),
    ],
)
def test_a_wrong_override_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        apply_overrides(VALUES, [override])


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="train.seed is set twice"):
        apply_overrides(VALUES, ["train.seed=1", "train.seed=2"])


def test_a_structure_is_set_as_a_whole_only_where_that_is_allowed() -> None:
    result = apply_overrides(VALUES, ["observations.noise=null"], replaceable={"observations.noise"})

    assert result["observations"] == {"noise": None, "delay": None}
    with pytest.raises(ConfigurationError, match="observations.noise is a group"):
        apply_overrides(VALUES, ["observations.noise=null"])
