"""Composition of off-policy training: process, device, replay and learner, in the order that refuses first."""

import contextlib
import dataclasses
from collections.abc import Callable
from functools import partial

import torch

from application.memory import MemoryThere, check_memory, memory_needs
from application.offpolicy import restore_scaler, train_off_policy
from application.planning import Plan
from application.ports import Collector, Run
from application.resident_collector import ResidentCollector
from application.system import SystemProbe
from application.tasks.task import OffPolicySettings
from application.tick import OffPolicyRuntime, RuntimeCfg
from application.training import (
    StopFlag,
    TrainOutput,
    TrainPlan,
    TrainSummary,
    saved_env,
    saved_learner,
)
from domain.errors import DeviceError
from domain.learning.config import ExecutionCfg, FlashSacCfg
from domain.learning.learner import Learner, LearnerPlan
from domain.learning.reward_scaling import RewardScaler
from domain.physics import Execution
from domain.replay.replay import Replay, ReplayPlan
from domain.replay.slots import SlotPlan
from domain.transfer import Transfer
from entrypoints.collector_main import env_builder
from entrypoints.composition import EnvFacts, build_env, build_planned_env, facts_of, simulator
from entrypoints.container import CollectorJob, Container, OffPolicyJob


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicyRun:
    """What stays the same while a run is built."""

    plan: Plan
    train: TrainPlan
    payload: dict[str, object] | None
    """Of the checkpoint to continue from."""
    stop: StopFlag
    graph: bool = True
    """Whether recurring work on the GPU is recorded, where the configuration does not say otherwise."""
    open_run: Callable[[EnvFacts], tuple[Run, TrainOutput]]
    """Makes or continues the run folder; called when nothing can fail any more for bad input."""


def run_off_policy(
    container: Container, run: OffPolicyRun, *, transfer: Transfer | None = None
) -> tuple[Run, TrainSummary]:
    """Train; ``transfer`` stands in for the device's own in tests.

    Raises:
        UnilabError: Something refuses its settings (nothing has been written then), or training failed.
        KeyboardInterrupt: A stop was requested before the first tick; nothing has been written.
    """
    plan, payload = run.plan, run.payload
    cfg, runtime = plan.config.task.off_policy
    facts = measure(container, plan)
    replay_plan = _replay_plan(cfg, facts, plan)
    check_memory(memory_needs(cfg, facts.layout, replay_plan.slots.num_envs), _memory(container, plan))
    with contextlib.ExitStack() as closing:
        if transfer is None:
            transfer = container.transfers(plan.device.type, plan.device, runtime.graph and run.graph)
        collector = _start_collector(container, run, replay_plan, transfer)
        closing.callback(collector.close)
        # Closed before the collector, whose memory it has locked.
        closing.callback(transfer.close)
        try:
            learner, replay = _build(container, run, replay_plan, facts, transfer)
        except torch.OutOfMemoryError as error:
            raise DeviceError(
                f"{plan.device} has too little memory for networks beside the replay: lower {cfg.kind}.replay_rows or "
                f"{cfg.kind}.batch_size"
            ) from error
        if payload is not None:
            # Done again by the training loop; here a misfit is found while the run is untouched.
            learner.load_state_dict(saved_learner(payload))
            restore_scaler(replay, payload)
        limits = RuntimeCfg(
            tick_timeout_s=runtime.tick_timeout_s,
            learning_start=cfg.learning_start_rows,
            checksums=runtime.checksums,
        )
        ticks = OffPolicyRuntime(learner, replay, collector, transfer, limits)
        collector.wait_ready(runtime.start_timeout_s)
        if run.stop.requested:
            raise KeyboardInterrupt
        folder, output = run.open_run(facts)
        open_trace = partial(container.trace_file, folder) if runtime.trace else None
        return folder, train_off_policy(
            ticks, run.train, output, resume_from=payload, stop=run.stop, open_trace=open_trace
        )


def _start_collector(container: Container, run: OffPolicyRun, replay_plan: ReplayPlan, transfer: Transfer) -> Collector:
    """Return what steps the environment: a process of its own, or a lane of the device that it lives on."""
    plan, state = run.plan, None if run.payload is None else saved_env(run.payload)
    _, runtime = plan.config.task.off_policy
    if _execution(container, plan.config.choices.sim) is Execution.DEVICE_RESIDENT:
        env = build_env(container, plan, plan.config.task.env)
        if env.device.type == "cuda" and runtime.graph and run.graph:
            env.rehearse()
        return ResidentCollector(env, replay_plan.slots, transfer, state)
    job = CollectorJob(
        builder=env_builder(plan.config.values, None),
        slots=replay_plan.slots,
        state=state,
        checksums=runtime.checksums,
        interrupted=lambda: run.stop.requested,
    )
    collector: Collector = container.collector(job)
    return collector


def _execution(container: Container, sim: str) -> Execution:
    return simulator(container, sim).capabilities.execution


def measure(container: Container, plan: Plan) -> EnvFacts:
    """Return the widths that only terms know, from an environment of one row that is closed again.

    It is a host's, whatever simulator the plan has: a task is one declaration for all, and a host's is built at once.

    Raises:
        ConfigurationError: A term or the simulator refuses its settings.
    """
    task = plan.config.task
    one = task.train.model_copy(update={"num_envs": 1, "cpu_ids": None})
    host = next(sim for sim in container.simulators.providers if _execution(container, sim) is Execution.HOST_BRIDGE)
    choices = dataclasses.replace(plan.config.choices, sim=host, device="cpu")
    config = dataclasses.replace(plan.config, task=dataclasses.replace(task, train=one), choices=choices)
    env = build_planned_env(container, config, plan.scene, task.env, log_dir=None)
    try:
        return facts_of(env)
    finally:
        env.close()


def _replay_plan(cfg: OffPolicySettings, facts: EnvFacts, plan: Plan) -> ReplayPlan:
    train = plan.config.task.train
    return ReplayPlan(
        slots=SlotPlan(layout=facts.layout, num_envs=train.num_envs),
        capacity=cfg.replay_rows,
        updates=cfg.updates_per_step,
        batch_size=cfg.batch_size,
        gamma=cfg.gamma,
        n_step=cfg.n_step,
        seed=train.seed,
    )


def _memory(container: Container, plan: Plan) -> MemoryThere:
    system: SystemProbe = container.system()
    name = str(plan.device)
    # An environment on the device has its slots there too.
    host = _execution(container, plan.config.choices.sim) is Execution.HOST_BRIDGE
    return MemoryThere(name=name, device=system.free_memory(name), shared=system.shared_memory() if host else None)


def _build(
    container: Container, run: OffPolicyRun, replay_plan: ReplayPlan, facts: EnvFacts, transfer: Transfer
) -> tuple[Learner, Replay]:
    plan = run.plan
    cfg, runtime = plan.config.task.off_policy
    envs, device = replay_plan.slots.num_envs, transfer.device
    scaler = None
    if isinstance(cfg, FlashSacCfg):
        scaler = RewardScaler(envs, cfg.gamma, cfg.max_return, device)
    replay = Replay(replay_plan, device, scaler)
    cuda = device.type == "cuda"
    job = OffPolicyJob(
        task=plan.config.task,
        plan=LearnerPlan(
            layout=facts.layout,
            num_envs=envs,
            action_low=facts.action_low,
            action_high=facts.action_high,
            device=device,
            seed=replay_plan.seed,
        ),
        batches=replay.batches,
        execution=ExecutionCfg(
            graph=runtime.graph and run.graph and cuda,
            compile=runtime.compile and cuda,
            precision=runtime.precision if cuda else "float32",
        ),
        fused=runtime.fused_kernels and cuda,
    )
    learner: Learner = container.off_policy_learners(plan.config.choices.algo, job)
    return learner, replay
