"""What all off-policy learners share: whose turn it is, what a step leaves alone, metrics, and what they refuse."""

from dataclasses import replace

import pytest
import torch

from domain.errors import ConfigurationError
from domain.learning.config import ExecutionCfg
from domain.replay.batch import TransitionBatch
from domain.replay.layout import RowLayout
from tests.support.learners import (
    ALGORITHMS,
    CPU,
    FULL,
    PLAN,
    SMALL,
    changed,
    learner,
    load,
    observations,
    random_batches,
    tensors,
    trained,
)

METRICS = {
    "sac": (
        *("critic_loss", "critic_grad_norm", "target_value", "alpha", "alpha_loss", "entropy"),
        *("actor_loss", "actor_grad_norm"),
    ),
    "td3": ("critic_loss", "critic_grad_norm", "target_value", "actor_loss", "actor_grad_norm"),
    "flashsac": (
        *("critic_loss", "critic_grad_norm", "target_value"),
        *("actor_loss", "actor_grad_norm", "alpha", "alpha_loss", "entropy"),
    ),
}
# The temperature learns with the critics in SAC and with the actor in FlashSAC; normalisers learn once a cycle.
WITH_CRITIC = {
    "sac": {"critic", "critic_optimizer", "target", "log_alpha", "alpha_optimizer"}
    | {"actor_normalizer", "critic_normalizer"},
    "td3": {"critic", "critic_optimizer", "target", "actor_normalizer", "critic_normalizer"},
    "flashsac": {"critic", "critic_optimizer", "target"},
}
WITH_ACTOR = {
    "sac": {"actor", "actor_optimizer"},
    "td3": {"actor", "actor_optimizer"},
    "flashsac": {"actor", "actor_optimizer", "log_alpha", "alpha_optimizer"},
}


def parts(names: set[str]) -> set[str]:
    """Return the first words of tensor names."""
    return {name.split("/")[0] for name in names}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("updates", "frequency", "actor_steps"),
    [(3, 2, (2, 3, 5, 6)), (2, 2, (1, 2, 3, 4)), (1, 3, (1, 1, 1, 2)), (4, 3, (2, 3, 4, 6)), (2, 1, (2, 4, 6, 8))],
)
def test_the_actor_learns_in_every_nth_critic_update_of_the_run(
    algorithm: str, updates: int, frequency: int, actor_steps: tuple[int, ...]
) -> None:
    subject = learner(replace(SMALL[algorithm], updates_per_step=updates, policy_frequency=frequency))
    found = []

    for cycle in range(4):
        subject.update(cycle % 2)
        state = tensors(subject)
        found.append(int(state["actor_optimizer/step"]))
        assert int(state["critic_optimizer/step"]) == updates * (cycle + 1)

    assert tuple(found) == actor_steps


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_policy_version_counts_cycles(algorithm: str) -> None:
    subject = learner(replace(SMALL[algorithm], updates_per_step=3))
    versions = [subject.policy_version]

    for slot in (0, 1, 1):
        subject.update(slot)
        versions.append(subject.policy_version)

    assert versions == [0, 1, 2, 3]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_critic_step_changes_nothing_of_the_actor(algorithm: str) -> None:
    subject = learner(replace(FULL[algorithm], updates_per_step=1))
    load(subject, {}, updates=1)
    before = tensors(subject)

    subject.update(0)

    assert parts(changed(before, tensors(subject))) == WITH_CRITIC[algorithm]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_actor_step_changes_nothing_of_the_critics_nor_of_their_running_statistics(algorithm: str) -> None:
    after = []
    for updates in (0, 1):  # with the actor's turn, and without it
        subject = learner(replace(FULL[algorithm], updates_per_step=1))
        load(subject, {}, updates=updates)
        subject.update(0)
        after.append(tensors(subject))

    assert parts(changed(*after)) == WITH_ACTOR[algorithm]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_target_that_moves_all_the_way_is_an_exact_copy(algorithm: str) -> None:
    subject = learner(replace(SMALL[algorithm], tau=1.0))

    for slot in (0, 1):
        subject.update(slot)
        state = tensors(subject)
        for name, value in trained(state, "critic").items():
            assert torch.equal(state[f"target/{name}"], value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_target_moves_its_share_of_the_way(algorithm: str) -> None:
    subject = learner(replace(SMALL[algorithm], tau=0.25, updates_per_step=1))
    before = tensors(subject)

    subject.update(0)

    after = tensors(subject)
    for name, value in trained(after, "critic").items():
        start = before[f"target/{name}"]
        torch.testing.assert_close(after[f"target/{name}"], start + 0.25 * (value - start), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_new_target_equals_its_critic(algorithm: str) -> None:
    state = tensors(learner(SMALL[algorithm]))

    for name in trained(state, "critic"):
        assert torch.equal(state[f"target/{name}"], state[f"critic/{name}"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_metrics_are_numbers_on_the_device_by_their_names(algorithm: str) -> None:
    metrics = learner(SMALL[algorithm]).update(0)

    assert tuple(metrics) == METRICS[algorithm]
    assert {(value.shape, value.device, value.dtype) for value in metrics.values()} == {((), CPU, torch.float32)}
    assert all(torch.isfinite(value) and not value.requires_grad for value in metrics.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_next_update_overwrites_metrics_in_place(algorithm: str) -> None:
    subject = learner(SMALL[algorithm])
    metrics = subject.update(0)
    addresses = [value.data_ptr() for value in metrics.values()]
    first = metrics["critic_loss"].clone()

    again = subject.update(1)

    assert [value.data_ptr() for value in again.values()] == addresses
    assert metrics["critic_loss"] == again["critic_loss"] != first


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_slot_chooses_the_batch(algorithm: str) -> None:
    bound = random_batches(SMALL[algorithm])
    swapped = learner(SMALL[algorithm], batches=(bound[1], bound[0]))
    straight = learner(SMALL[algorithm], batches=bound)

    straight.update(0)
    swapped.update(1)

    assert changed(tensors(straight), tensors(swapped)) == set()


@pytest.mark.parametrize("slot", [-1, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_slot_that_there_is_not_is_refused_before_anything_is_learnt(algorithm: str, slot: int) -> None:
    subject = learner(SMALL[algorithm])
    before = tensors(subject)

    with pytest.raises(ConfigurationError, match=f"got slot {slot}"):
        subject.update(slot)

    assert changed(before, tensors(subject)) == set()
    assert subject.policy_version == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_update_reads_batches_and_leaves_them_alone(algorithm: str) -> None:
    bound = random_batches(SMALL[algorithm])
    before = [t.clone() for batch in bound for t in (batch.rows, batch.reward, batch.discount)]

    learner(SMALL[algorithm], batches=bound).update(0)

    after = [t for batch in bound for t in (batch.rows, batch.reward, batch.discount)]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_critics_see_what_the_actor_sees_where_they_have_no_columns_of_their_own(algorithm: str) -> None:
    shared = replace(PLAN, layout=RowLayout(obs=5, action=2))
    subject = learner(FULL[algorithm], plan=shared)

    subject.update(0)

    first = "embed.weight" if algorithm == "flashsac" else "layers.0.weight"
    assert tensors(subject)[f"critic/{first}"].shape[-1] == 5 + 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_padding_of_the_stored_network_stays_zero_over_updates(algorithm: str) -> None:
    subject = learner(SMALL[algorithm])
    for slot in (0, 1, 0):
        subject.update(slot)

    parameters = list(subject.actor.parameters())
    block = torch.empty(0).set_(parameters[0].detach().untyped_storage())

    assert block.numel() > sum(parameter.numel() for parameter in parameters)
    assert block.count_nonzero() == sum(int(parameter.count_nonzero()) for parameter in parameters)


UNFIT = {
    "one update too many": (PLAN.layout, 3, 16, CPU),
    "a row too few": (PLAN.layout, 2, 15, CPU),
    "other width": (replace(PLAN.layout, obs=6), 2, 16, CPU),
    "same width, other columns": (RowLayout(obs=7, action=2, critic=5), 2, 16, CPU),
    "other device": (PLAN.layout, 2, 16, torch.device("meta")),
}


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("case", UNFIT)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_batches_that_do_not_fit_are_refused(algorithm: str, case: str, slot: int) -> None:
    bound = list(random_batches(SMALL[algorithm]))
    bound[slot] = TransitionBatch(*UNFIT[case])

    with pytest.raises(ConfigurationError, match="does not fit the learner's"):
        learner(SMALL[algorithm], batches=(bound[0], bound[1]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_update_graphs_without_cuda_are_refused(algorithm: str) -> None:
    with pytest.raises(ConfigurationError, match="update graphs need a CUDA device, not 'cpu': set graph to false"):
        learner(SMALL[algorithm], execution=ExecutionCfg(graph=True))


@pytest.mark.parametrize("shape", [(3, 5), (5, 5), (4, 6), (4, 1, 5)])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exploring_for_other_observations_than_planned_is_refused(algorithm: str, shape: tuple[int, ...]) -> None:
    subject = learner(SMALL[algorithm])

    with pytest.raises(ConfigurationError, match=r"act\(\) got observations of shape .*, expected \(4, 5\)"):
        subject.act(torch.zeros(shape))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_deterministic_actions_are_the_actor_s_for_any_number_of_rows(algorithm: str) -> None:
    subject = learner(FULL[algorithm])
    subject.update(0)
    obs = observations(9)

    actions = subject.act(obs, deterministic=True)

    assert actions.shape == (9, 2)
    assert torch.equal(actions, subject.actor(obs).detach())


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_actions_lie_inside_their_bounds(algorithm: str, deterministic: bool) -> None:
    low, high = (-3.0, 0.1), (-1.0, 0.7)
    subject = learner(SMALL[algorithm], plan=replace(PLAN, action_low=low, action_high=high))
    subject.update(0)
    seen = torch.cat([subject.act(1000 * observations(seed=n), deterministic=deterministic) for n in range(50)])

    # An end may be missed by the rounding of float32.
    assert (seen >= torch.tensor(low) - 1e-6).all()
    assert (seen <= torch.tensor(high) + 1e-6).all()
    assert not seen.requires_grad
