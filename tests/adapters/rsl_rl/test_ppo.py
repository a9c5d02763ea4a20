import io
import subprocess
import sys
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from adapters.rsl_rl.actor_critic import load_policy
from adapters.rsl_rl.ppo import RslRlPpo
from application.settings import PpoSettings
from domain.env import StepResult
from domain.errors import ConfigurationError, DataError, DeviceError

CPU = torch.device("cpu")
TINY = PpoSettings(rollout_steps=4, actor_hidden=(8,), critic_hidden=(8,), mini_batches=2, epochs=2)


def learner_for(
    settings: PpoSettings = TINY, *, envs: int = 4, actor: int = 3, critic: int = 5, action: int = 2, seed: int = 1
) -> RslRlPpo:
    example = {"actor": torch.zeros(envs, actor), "critic": torch.zeros(envs, critic)}
    return RslRlPpo(settings, example, action, device=CPU, seed=seed)


def observed(step: int, envs: int = 4, actor: int = 3, critic: int = 5) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        "actor": torch.randn(envs, actor, generator=generator),
        "critic": torch.randn(envs, critic, generator=generator),
    }


def outcome(
    observations: dict[str, Tensor],
    *,
    reward: Tensor | None = None,
    terminated: Tensor | None = None,
    truncated: Tensor | None = None,
    final: dict[str, Tensor] | None = None,
) -> StepResult:
    n = len(observations["actor"])
    none = torch.zeros(n, dtype=torch.bool)
    return StepResult(
        observations=observations,
        reward=torch.ones(n) if reward is None else reward,
        terminated=none if terminated is None else terminated,
        truncated=none if truncated is None else truncated,
        final_observations=observations if final is None else final,
        valid=~none,
    )


def iterate(learner: RslRlPpo, start: int = 0) -> dict[str, float]:
    """Run one rollout of made-up transitions and its update."""
    for step in range(start, start + learner.rollout_steps):
        action = learner.act(observed(step))
        truncated = torch.tensor([False, False, False, step % 3 == 0])
        learner.record(outcome(observed(step + 1), reward=action[:, 0], truncated=truncated, final=observed(-step)))
    return learner.update(observed(start + learner.rollout_steps))


def make_critic_read_its_input(learner: RslRlPpo) -> None:
    """V(x) = x for one positive observation: ELU leaves positive numbers as they are."""
    tensors = learner.algorithm.critic.state_dict()
    for name, tensor in tensors.items():
        tensor.fill_(1.0 if name.endswith("weight") else 0.0)


def flat(state: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in state.items():
        found |= flat(value, f"{prefix}{key}/") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def assert_equal_states(one: Mapping[str, object], other: Mapping[str, object]) -> None:
    a, b = flat(one), flat(other)
    assert a.keys() == b.keys()
    for name, value in a.items():
        same = torch.equal(value, b[name]) if isinstance(value, Tensor) else value == b[name]  # type: ignore[arg-type]
        assert same, name


def test_only_a_time_out_without_failure_gets_the_value_of_its_final_observation() -> None:
    """FR-19: the state before the step is worth 2, the one after it 5."""
    settings = TINY.model_copy(update={"rollout_steps": 3, "gamma": 0.9, "critic_hidden": (1,)})
    learner = learner_for(settings, critic=1)
    make_critic_read_its_input(learner)
    still = {"actor": torch.zeros(4, 3), "critic": torch.full((4, 1), 2.0)}
    final = {"actor": torch.zeros(4, 3), "critic": torch.full((4, 1), 5.0)}

    for step in range(3):
        learner.act(still)
        limit = torch.full((4,), step == 2)
        truncated, terminated = torch.tensor([0, 1, 0, 1]).bool() & limit, torch.tensor([0, 0, 1, 1]).bool() & limit
        learner.record(outcome(still, truncated=truncated, terminated=terminated, final=final))
    learner.update(still)

    stored = learner.algorithm.storage.rewards[:, :, 0]
    torch.testing.assert_close(stored, torch.tensor([[1.0] * 4, [1.0] * 4, [1.0, 1.0 + 0.9 * 5.0, 1.0, 1.0]]))
    assert learner.algorithm.storage.dones[2, :, 0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("truncated", "advantages"),
    [
        (False, (2.773096925, 1.99585, 1.7, -0.606)),
        (True, (3.3860833182, 2.6476165, 2.393, -0.606)),
    ],
)
def test_advantages_of_a_known_rollout(truncated: bool, advantages: tuple[float, ...]) -> None:
    settings = TINY.model_copy(update={"critic_hidden": (1,), "gamma": 0.99, "lam": 0.95, "mini_batches": 1})
    learner = learner_for(settings, envs=1, critic=1)
    make_critic_read_its_input(learner)
    rewards, values = (1.0, 0.5, 2.0, -1.0), (0.5, 0.4, 0.3, 0.2, 0.6)
    observations = [{"actor": torch.zeros(1, 3), "critic": torch.tensor([[value]])} for value in values]

    for step in range(4):
        learner.act(observations[step])
        ended = torch.tensor([step == 2])
        learner.record(
            outcome(
                observations[step + 1],
                reward=torch.tensor([rewards[step]]),
                terminated=ended & (not truncated),
                truncated=ended & truncated,
                final={"critic": torch.tensor([[0.7]])},
            )
        )
    learner.update(observations[4])

    storage = learner.algorithm.storage
    expected = torch.tensor(advantages)
    torch.testing.assert_close((storage.returns - storage.values).flatten(), expected, atol=1e-5, rtol=0)
    normalised = (expected - expected.mean()) / (expected.std() + 1e-8)
    torch.testing.assert_close(storage.advantages.flatten(), normalised, atol=1e-5, rtol=0)


def test_divergence_and_entropy_of_known_gaussians() -> None:
    actor = learner_for(action=1).algorithm.actor
    actor.distribution.update(torch.zeros(1, 1))

    divergence = actor.get_kl_divergence(
        (torch.zeros(1, 1), torch.ones(1, 1)), (torch.full((1, 1), 0.1), torch.full((1, 1), 0.9))
    )

    assert float(divergence) == pytest.approx(0.0180963, abs=1e-6)
    assert float(actor.output_entropy.detach()) == pytest.approx(1.4189385, abs=1e-6)


def test_networks_have_the_published_parameter_counts() -> None:
    learner = learner_for(PpoSettings(), actor=100, critic=103, action=29)

    counts = [
        sum(p.numel() for p in network.parameters()) for network in (learner.algorithm.actor, learner.algorithm.critic)
    ]

    assert counts == [219_706, 217_601]


def test_the_critic_falls_back_to_the_actors_group() -> None:
    learner = RslRlPpo(TINY, {"actor": torch.zeros(4, 3)}, 2, device=CPU, seed=1)

    assert learner.algorithm.critic.obs_dim == 3


def test_an_actor_group_is_required() -> None:
    with pytest.raises(ConfigurationError, match="needs an observation group 'actor' \\(found: policy\\)"):
        RslRlPpo(TINY, {"policy": torch.zeros(4, 3)}, 2, device=CPU, seed=1)


def test_a_rollout_has_at_least_as_many_transitions_as_mini_batches() -> None:
    with pytest.raises(
        ConfigurationError, match=r"ppo.mini_batches is 9, above num_envs times ppo.rollout_steps \(8\)"
    ):
        learner_for(TINY.model_copy(update={"mini_batches": 9}), envs=2)


def test_an_update_before_the_rollout_is_full_is_refused() -> None:
    learner = learner_for()
    learner.act(observed(0))
    learner.record(outcome(observed(1)))

    with pytest.raises(ConfigurationError, match="after 1 steps: a rollout has 4"):
        learner.update(observed(1))


def test_an_environment_may_reuse_its_buffers() -> None:
    learner = learner_for()
    buffers = observed(0)
    before = {name: value.clone() for name, value in buffers.items()}

    learner.act(buffers)
    for value in buffers.values():
        value.fill_(9.0)
    learner.record(outcome(buffers))

    for name, value in before.items():
        torch.testing.assert_close(learner.algorithm.storage.observations[name][0], value, atol=0, rtol=0)


def test_equal_seeds_learn_the_same_and_others_differ() -> None:
    states = []
    for seed in (1, 1, 2):
        learner = learner_for(seed=seed)
        iterate(learner)
        states.append(flat(learner.state_dict()))

    assert_equal_states(states[0], states[1])
    weights = [state["actor/mlp.0.weight"] for state in states]
    assert isinstance(weights[0], Tensor)
    assert isinstance(weights[2], Tensor)
    assert not torch.equal(weights[0], weights[2])


def test_first_weights_depend_on_the_seed_alone() -> None:
    first = learner_for()
    iterate(first)

    again = learner_for()

    torch.testing.assert_close(
        flat(again.state_dict())["critic/mlp.0.weight"], flat(learner_for().state_dict())["critic/mlp.0.weight"]
    )


@pytest.mark.parametrize("normalised", [False, True])
def test_a_loaded_learner_goes_on_bit_for_bit(normalised: bool) -> None:
    settings = TINY.model_copy(update={"obs_normalization": normalised})
    original = learner_for(settings)
    iterate(original)
    file = io.BytesIO()
    torch.save(original.state_dict(), file)
    expected = iterate(original, start=50)
    file.seek(0)

    resumed = learner_for(settings, seed=9)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    metrics = iterate(resumed, start=50)

    assert metrics == expected
    assert_equal_states(resumed.state_dict(), original.state_dict())


def test_normaliser_statistics_come_from_whole_rollouts() -> None:
    learner = learner_for(TINY.model_copy(update={"obs_normalization": True}))

    iterate(learner)

    assert int(learner.algorithm.actor.obs_normalizer.count) == 16
    seen = torch.cat([observed(step)["actor"] for step in range(4)])
    torch.testing.assert_close(learner.algorithm.actor.obs_normalizer.mean, seen.mean(dim=0))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"actor": 4}, "actor_observation is 4 there and 3 here"),
        ({"critic": 6}, "critic_observation is 6 there and 5 here"),
        ({"action": 1}, "action is 1 there and 2 here"),
        (
            {"settings": TINY.model_copy(update={"actor_hidden": (8, 8)})},
            r"actor_hidden is \[8, 8\] there and \[8\] here",
        ),
    ],
)
def test_a_checkpoint_with_other_networks_is_refused(other: dict[str, int], difference: str) -> None:
    state = learner_for(**other).state_dict()  # type: ignore[arg-type]

    with pytest.raises(DataError, match=difference):
        learner_for().load_state_dict(state)


def test_a_checkpoint_of_another_algorithm_is_refused() -> None:
    state = learner_for().state_dict() | {"kind": "sac"}

    with pytest.raises(DataError, match="learnt by 'sac', not by 'ppo'"):
        learner_for().load_state_dict(state)


@pytest.mark.parametrize("entry", ["network", "actor", "critic", "optimizer", "learning_rate", "random"])
def test_a_checkpoint_that_lacks_an_entry_is_refused(entry: str) -> None:
    learner = learner_for()
    iterate(learner)
    state = learner.state_dict()
    del state[entry]

    with pytest.raises(DataError, match=entry):
        learner_for().load_state_dict(state)


def test_the_policy_is_the_mean_action_and_keeps_its_weights() -> None:
    learner = learner_for(TINY.model_copy(update={"obs_normalization": True}))
    iterate(learner)
    policy = learner.policy()
    actor = learner.algorithm.actor
    observations = observed(3)
    expected = actor.mlp(actor.obs_normalizer(observations["actor"])).detach()

    iterate(learner, start=20)

    torch.testing.assert_close(policy(observations), expected, atol=0, rtol=0)


def test_a_saved_policy_needs_no_learner() -> None:
    learner = learner_for(TINY.model_copy(update={"obs_normalization": True}))
    iterate(learner)

    policy = load_policy(learner.state_dict(), observed(0), 2, device=CPU)

    torch.testing.assert_close(policy(observed(3)), learner.policy()(observed(3)), atol=0, rtol=0)


def test_a_saved_policy_of_other_widths_is_refused() -> None:
    with pytest.raises(DataError, match="maps 3 observations to 2 actions, this environment has 3 and 1"):
        load_policy(learner_for().state_dict(), observed(0), 1, device=CPU)


def test_metrics_are_scalars_that_can_be_logged() -> None:
    metrics = iterate(learner_for())

    assert metrics.keys() == {"loss/value", "loss/surrogate", "loss/entropy", "learning_rate", "action_std"}
    assert all(isinstance(value, float) for value in metrics.values())


def test_one_process_is_the_rank_that_writes() -> None:
    learner = learner_for()

    assert (learner.rank, learner.world_size, learner.writes_run) == (0, 1, True)


def test_several_ranks_on_the_cpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(DeviceError, match="WORLD_SIZE is 2 but the device is cpu"):
        learner_for()


def test_one_process_prints_nothing_and_imports_neither_git_nor_a_runner() -> None:
    program = (
        "import sys, torch\n"
        "from adapters.rsl_rl.ppo import RslRlPpo\n"
        "from application.settings import PpoSettings\n"
        "RslRlPpo(PpoSettings(), {'actor': torch.zeros(2, 3)}, 1, device=torch.device('cpu'), seed=1)\n"
        "sys.exit(f\"imported: {'git' in sys.modules} {'rsl_rl.runners' in sys.modules}\")\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout == ""
    assert done.stderr.strip() == "imported: False False"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_learner_copies_one_observation_in_and_one_action_out_a_step() -> None:
    example = {"actor": torch.zeros(4, 3), "critic": torch.zeros(4, 5)}
    learner = RslRlPpo(TINY, example, 2, device=torch.device("cuda", 0), seed=1)
    iterate(learner)
    learner.act(observed(0))
    learner.record(outcome(observed(1)))

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        action = learner.act(observed(1))
        learner.record(outcome(observed(2), truncated=torch.ones(4, dtype=torch.bool)))
        torch.cuda.synchronize()

    copies = [event.name for event in profile.events() or () if "HtoD" in event.name or "DtoH" in event.name]
    assert [name[:11] for name in copies] == ["Memcpy HtoD", "Memcpy DtoH"]
    assert action.device == CPU


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_learner_is_saved_and_goes_on_with_the_same_noise() -> None:
    example = {"actor": torch.zeros(4, 3), "critic": torch.zeros(4, 5)}
    original, resumed = (RslRlPpo(TINY, example, 2, device=torch.device("cuda", 0), seed=seed) for seed in (1, 9))
    iterate(original)
    file = io.BytesIO()
    torch.save(original.state_dict(), file)
    expected = original.act(observed(1))
    file.seek(0)

    resumed.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"))

    torch.testing.assert_close(resumed.act(observed(1)), expected)
