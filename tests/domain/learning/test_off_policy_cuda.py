"""On a CUDA device: no host read, graphs give what eager calls give, payloads cross devices."""

import copy
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

from domain.graphs import capture
from domain.learning.config import ExecutionCfg, FlashSacCfg, SacCfg, Td3Cfg
from domain.learning.flashsac import FlashSacLearner
from domain.learning.kernels import Kernels, TorchKernels
from domain.learning.learner import Learner, LearnerPlan
from domain.learning.sac import SacLearner
from domain.learning.td3 import Td3Learner
from domain.replay.batch import TransitionBatch
from tests.support.learners import (
    ALGORITHMS,
    EAGER,
    FULL,
    PLAN,
    Batches,
    learner,
    observations,
    random_batches,
    tensors,
)

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GRAPH = ExecutionCfg(graph=True)
COMPILED = ExecutionCfg(compile=True)


@pytest.fixture(params=["torch", "triton"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    if request.param == "torch":
        return TorchKernels()
    from adapters.triton_kernels.kernels import TritonKernels

    return TritonKernels()


def on_gpu(algorithm: str, execution: ExecutionCfg, kernels: Kernels | None = None) -> Learner:
    cfg = FULL[algorithm]
    plan = replace(PLAN, device=torch.device("cuda"))
    batches = gpu_batches(algorithm, plan)
    if isinstance(cfg, SacCfg):
        return SacLearner(cfg, plan, batches, execution, kernels)
    if isinstance(cfg, Td3Cfg):
        return Td3Learner(cfg, plan, batches, execution, kernels)
    return FlashSacLearner(cast(FlashSacCfg, cfg), plan, batches, execution, kernels)


def gpu_batches(algorithm: str, plan: LearnerPlan) -> Batches:
    cfg = FULL[algorithm]
    first, second = (TransitionBatch(plan.layout, cfg.updates_per_step, cfg.batch_size, plan.device) for _ in range(2))
    for mine, source in zip((first, second), random_batches(cfg, plan.layout), strict=True):
        for name in ("rows", "reward", "discount"):
            cast(Tensor, getattr(mine, name)).copy_(getattr(source, name))
    return first, second


def assert_equal_state(mine: Learner, theirs: Learner, tolerance: float) -> None:
    here, there = tensors(mine), tensors(theirs)
    for name, value in here.items():
        torch.testing.assert_close(value.cpu(), there[name].cpu(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_waits_for_the_device(algorithm: str, kernels: Kernels) -> None:
    subject, obs = on_gpu(algorithm, EAGER, kernels), observations().cuda()
    ended = torch.tensor([True, False, True, False], device="cuda")
    subject.update(0)
    subject.act(obs)

    torch.cuda.set_sync_debug_mode("error")
    try:
        subject.update(1)
        subject.update(0)
        subject.start_episodes(ended)
        subject.act(obs)
        subject.act(obs, deterministic=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_graphs_compute_what_eager_calls_compute(algorithm: str, kernels: Kernels) -> None:
    eager, graph = on_gpu(algorithm, EAGER, kernels), on_gpu(algorithm, GRAPH, kernels)
    assert_equal_state(graph, eager, 0.0)

    for slot in (0, 1, 1, 0):
        plain, replayed = eager.update(slot), graph.update(slot)

    # Torch's scatter adds in no fixed order on a GPU; the Triton kernels do.
    assert_equal_state(graph, eager, 5e-4 if isinstance(kernels, TorchKernels) else 1e-5)
    for name, value in plain.items():
        torch.testing.assert_close(replayed[name], value, atol=1e-4, rtol=1e-4)
    assert torch.equal(eager.act(observations().cuda()), graph.act(observations().cuda())) or algorithm != "td3"


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_compiled_losses_compute_what_plain_ones_compute(algorithm: str) -> None:
    eager, compiled = on_gpu(algorithm, EAGER), on_gpu(algorithm, COMPILED)

    for slot in (0, 1):
        eager.update(slot)
        compiled.update(slot)

    assert_equal_state(compiled, eager, 2e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_triton_and_torch_learn_the_same(algorithm: str) -> None:
    from adapters.triton_kernels.kernels import TritonKernels

    fused, plain = on_gpu(algorithm, EAGER, TritonKernels()), on_gpu(algorithm, EAGER)

    for slot in (0, 1):
        fused.update(slot)
        plain.update(slot)

    assert_equal_state(fused, plain, 2e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_captured_policy_draws_anew_and_follows_its_weights(algorithm: str) -> None:
    graphed, eager = on_gpu(algorithm, GRAPH), on_gpu(algorithm, GRAPH)
    obs = observations().cuda()
    action, start = torch.zeros(4, 2, device="cuda"), graphed.generator.get_state()
    held = {name: value for name, value in tensors(graphed).items() if name.startswith("exploration")}

    def act() -> None:
        action.copy_(graphed.act(obs))

    act()
    graph = capture(act, graphed.generator)
    graphed.load_state_dict({**graphed.state_dict(), "tensors": tensors(graphed) | held})
    graphed.generator.set_state(start)
    seen = []
    for turn in range(4):
        if turn == 2:
            graphed.update(0)
            eager.update(0)
        graph.replay()
        seen.append(action.clone())
        torch.testing.assert_close(action, eager.act(obs), atol=1e-5, rtol=1e-5)

    assert not torch.equal(seen[1], seen[2])
    if algorithm != "flashsac":
        assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_payload_crosses_devices(algorithm: str) -> None:
    gpu, cpu = on_gpu(algorithm, GRAPH), learner(FULL[algorithm])
    gpu.update(0)

    cpu.load_state_dict(gpu.state_dict())
    assert_equal_state(gpu, cpu, 0.0)
    cpu.update(0)
    gpu.load_state_dict(cpu.state_dict())

    assert_equal_state(gpu, cpu, 0.0)
    before = tensors(gpu)["critic/head.bias"]
    gpu.update(1)
    assert not torch.equal(tensors(gpu)["critic/head.bias"], before)
    assert gpu.policy_version == 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_copy_of_the_actor_runs_on_the_cpu(algorithm: str, kernels: Kernels) -> None:
    subject = on_gpu(algorithm, GRAPH, kernels)
    subject.update(0)

    action = copy.deepcopy(subject.actor).cpu()(observations())

    right = subject.act(observations().cuda(), deterministic=True).cpu()
    torch.testing.assert_close(action, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_narrow_update_loses_little(algorithm: str, kernels: Kernels) -> None:
    narrow, wide = on_gpu(algorithm, ExecutionCfg(precision="bfloat16", graph=True), kernels), on_gpu(algorithm, EAGER)

    loss, right = narrow.update(0)["critic_loss"].clone(), wide.update(0)["critic_loss"].clone()

    torch.testing.assert_close(loss, right, rtol=0.01, atol=0.0)
