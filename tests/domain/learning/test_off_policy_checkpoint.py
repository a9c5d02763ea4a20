"""A run that is saved and continued equals the run that went on; a payload that does not fit changes nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from adapters.checkpoints.torch_store import TorchCheckpointStore
from domain.errors import DataError
from domain.learning.learner import Learner
from tests.support.learners import ALGORITHMS, CPU, FULL, PLAN, SMALL, changed, learner, observations, part, tensors

State = Mapping[str, object]
OTHER_SEED = replace(PLAN, seed=99)
CUDA_RNG = {"device": "cuda", "state": "00" * 16}


def after_a_while(algorithm: str) -> Learner:
    """Return a learner in the middle of a run: three updates a cycle, so that the actor's turn is not where it was."""
    subject = learner(replace(FULL[algorithm], updates_per_step=3))
    subject.start_episodes(torch.tensor([True, False, True, False]))
    subject.act(observations())
    subject.update(0)
    subject.act(observations(seed=1))
    return subject


def assert_equal_from_here(one: Learner, other: Learner) -> None:
    """Act and learn with both, and compare every bit."""
    assert one.policy_version == other.policy_version
    for slot in (1, 0):
        assert torch.equal(one.act(observations(seed=slot)), other.act(observations(seed=slot)))
        expected, found = one.update(slot), other.update(slot)
        assert all(torch.equal(found[name], value) for name, value in expected.items())
        assert changed(tensors(one), tensors(other)) == set()
        mask = torch.tensor([False, True, True, False])
        one.start_episodes(mask)
        other.start_episodes(mask)
    assert one.policy_version == other.policy_version
    assert part(one.state_dict(), "counters") == part(other.state_dict(), "counters")
    assert part(one.state_dict(), "rng") == part(other.state_dict(), "rng")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_learner_of_another_seed_goes_on_bit_for_bit(algorithm: str) -> None:
    running = after_a_while(algorithm)
    resumed = learner(replace(FULL[algorithm], updates_per_step=3), plan=OTHER_SEED)

    resumed.load_state_dict(running.state_dict())

    assert_equal_from_here(running, resumed)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_learner_goes_on_bit_for_bit_from_a_file(algorithm: str, tmp_path: Path) -> None:
    running = after_a_while(algorithm)
    resumed = learner(replace(FULL[algorithm], updates_per_step=3), plan=OTHER_SEED)
    resumed.update(1)
    store, file = TorchCheckpointStore(), tmp_path / "model.pt"

    store.save(file, running.state_dict())
    resumed.load_state_dict(store.load(file, CPU))

    assert_equal_from_here(running, resumed)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_saving_changes_nothing_and_a_payload_is_a_copy(algorithm: str) -> None:
    saving, other = after_a_while(algorithm), after_a_while(algorithm)

    state = saving.state_dict()
    before = {name: value.clone() for name, value in tensors(state).items()}
    assert_equal_from_here(other, saving)

    assert changed(before, tensors(state)) == set()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_payload_names_everything_that_learning_depends_on(algorithm: str) -> None:
    state = after_a_while(algorithm).state_dict()

    assert set(state) == {"format", "kind", "shape", "tensors", "counters", "rng"}
    assert (state["format"], state["kind"]) == (1, algorithm)
    assert part(state, "counters") == {"updates": 3, "policy_version": 1}
    first_words = {name.split("/")[0] for name in tensors(state)}
    own = {
        "sac": {"log_alpha", "alpha_optimizer", "actor_normalizer", "critic_normalizer"},
        "td3": {"exploration", "actor_normalizer", "critic_normalizer"},
        "flashsac": {"log_alpha", "alpha_optimizer", "exploration"},
    }
    shared = {"actor", "critic", "target", "actor_optimizer", "critic_optimizer"}
    assert first_words == shared | own[algorithm]
    assert tensors(state)["critic_optimizer/step"] == 3.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stream_of_another_type_of_device_begins_anew_and_the_same_each_time(algorithm: str) -> None:
    state = after_a_while(algorithm).state_dict() | {"rng": CUDA_RNG}
    cfg = replace(FULL[algorithm], updates_per_step=3)
    one, other = learner(cfg), learner(cfg)
    other.act(observations())

    for subject in (one, other):
        subject.load_state_dict(state)

    assert one.generator.get_state().equal(other.generator.get_state())
    assert_equal_from_here(one, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stream_that_begins_anew_differs_by_the_point_of_the_run_and_from_the_first_one(algorithm: str) -> None:
    fresh = learner(SMALL[algorithm])
    states = [fresh.generator.get_state()]

    for updates in (0, 2):
        counters = {"updates": updates, "policy_version": 0}
        fresh.load_state_dict(fresh.state_dict() | {"rng": CUDA_RNG, "counters": counters})
        states.append(fresh.generator.get_state())

    assert len({bytes(state.untyped_storage()) for state in states}) == 3


Edit = Callable[[dict[str, Any]], None]
NAME = "actor_optimizer/exp_avg/head.weight"


def _set(entry: str, value: object) -> Edit:
    return lambda state: state.__setitem__(entry, value)


def _set_in(entry: str, name: str, value: object) -> Edit:
    return lambda state: state[entry].__setitem__(name, value)


def _drop(entry: str, name: str) -> Edit:
    return lambda state: state[entry].__delitem__(name)


def _break_number(state: dict[str, Any]) -> None:
    state["tensors"]["critic/head.weight"].view(-1)[-1] = torch.nan


def _several_shapes(state: dict[str, Any]) -> None:
    state["shape"].update(obs=6, v_max=7.0, num_envs=3)


def _cut_rng(state: dict[str, Any]) -> None:
    state["rng"]["state"] = state["rng"]["state"][:100]


REFUSALS: dict[str, tuple[Edit, str]] = {
    "other algorithm": (_set("kind", "ppo"), "learnt by 'ppo', not by"),
    "other version": (_set("format", 0), "has format 0, this version reads 1"),
    "other shapes": (_several_shapes, "num_envs is 3 there and 4 here; obs is 6 there and 5 here; v_max is 7.0 there"),
    "missing tensor": (_drop("tensors", NAME), f"lacks tensor '{NAME}'"),
    "surplus tensor": (_set_in("tensors", "extra", torch.zeros(1)), "has an unknown tensor 'extra'"),
    "wrong shape": (_set_in("tensors", NAME, torch.zeros(3)), f"'{NAME}' is torch.float32 of shape"),
    "wrong type": (
        _set_in("tensors", "actor_optimizer/step", torch.tensor(1)),
        "'actor_optimizer/step' is torch.int64",
    ),
    "not finite": (_break_number, "'critic/head.weight' holds numbers that are not finite"),
    "damaged stream": (_set_in("rng", "state", "xyz"), "random state is damaged"),
    "cut stream": (_cut_rng, "random state is damaged"),
    "no stream": (_set("rng", None), "entry 'rng' is missing or damaged"),
    "no counters": (_set("counters", None), "entry 'counters' is missing or damaged"),
    "no number of updates": (_drop("counters", "updates"), "entry 'counters' is damaged"),
    "no policy version": (_drop("counters", "policy_version"), "entry 'counters' is damaged"),
    "one counter too many": (_set_in("counters", "other", 1), "entry 'counters' is damaged"),
    "a counter that is no number": (_set_in("counters", "updates", "three"), "entry 'counters' is damaged"),
    "a negative counter": (_set_in("counters", "updates", -1), "entry 'counters' is damaged"),
    "a counter that is a truth value": (_set_in("counters", "updates", True), "entry 'counters' is damaged"),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_payload_that_does_not_fit_is_refused_and_changes_nothing(algorithm: str, case: str) -> None:
    edit, message = REFUSALS[case]
    cfg = replace(FULL[algorithm], updates_per_step=3)
    state: dict[str, Any] = after_a_while(algorithm).state_dict()
    edit(state)
    subject, untouched = (learner(cfg, plan=OTHER_SEED) for _ in range(2))

    with pytest.raises(DataError, match=message):
        subject.load_state_dict(state)

    assert_equal_from_here(untouched, subject)


@pytest.mark.parametrize("there", ALGORITHMS)
@pytest.mark.parametrize("here", ALGORITHMS)
def test_each_algorithm_reads_its_own_payloads_only(there: str, here: str) -> None:
    state = learner(SMALL[there]).state_dict()

    if there == here:
        learner(SMALL[here]).load_state_dict(state)
    else:
        with pytest.raises(DataError, match=f"learnt by '{there}', not by '{here}': choose that algorithm"):
            learner(SMALL[here]).load_state_dict(state)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"atoms": 21}, "atoms is 21 there and 11 here"),
        ({"v_min": -7.0, "v_max": 6.0}, "v_max is 6.0 there and 5.0 here; v_min is -7.0 there and -5.0 here"),
    ],
)
def test_a_payload_of_other_settings_is_refused_by_their_names(
    algorithm: str, changes: dict[str, Any], names: str
) -> None:
    state = learner(replace(SMALL[algorithm], **changes)).state_dict()

    with pytest.raises(DataError, match=names):
        learner(SMALL[algorithm]).load_state_dict(state)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_payload_of_other_action_bounds_is_refused(algorithm: str) -> None:
    state = learner(SMALL[algorithm], plan=replace(PLAN, action_high=(1.0, 2.0))).state_dict()

    with pytest.raises(DataError, match=r"action_high is \[1.0, 2.0\] there and \[1.0, 1.0\] here"):
        learner(SMALL[algorithm]).load_state_dict(state)
