"""Composition of ``unilab train``: everything that can fail on bad input comes before the run folder."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from application.config import SCENE
from application.onpolicy import train_on_policy
from application.planning import AUTO, OFF_POLICY_ALGORITHMS, Plan, Request
from application.ports import MetricSink, OnPolicyLearner, Payload, Run, RunStore
from application.system import environment_record
from application.training import (
    StopFlag,
    TrainOutput,
    TrainPlan,
    TrainSummary,
    check_origin,
    saved_env,
    saved_learner,
)
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, unknown_name
from entrypoints.composition import (
    EnvFacts,
    build_env,
    facts_of,
    look_around,
    record_step,
    saved_text,
    simulator,
)
from entrypoints.container import Container, LearnerJob
from entrypoints.motions import MOTIONS, plan_with_motions

DEFAULT_ALGO = "ppo"
DEFAULT_SIM = "mujoco"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What the command line gave; None where an option was left out."""

    task: str | None
    algo: str | None = None
    sim: str | None = None
    device: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """Options that set a value of the configuration, by its path."""
    overrides: Sequence[str] = ()
    run_name: str | None = None
    resume: str | None = None
    logger: str = "none"
    quiet: bool = False
    graph: bool = True
    dry_run: bool = False
    """Whether the configuration is only to be looked at: any machine will do."""
    announce: Callable[[str], None] = lambda line: None
    """Told what is worth knowing of the motions, and no error."""


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """A run that can start: a plan, and the run and checkpoint that it continues."""

    plan: Plan
    name: str
    logger: str
    quiet: bool
    graph: bool = True
    """Whether the step of an environment on the GPU is recorded as one graph."""
    continued: Run | None = None
    payload: Payload | None = None


@dataclass(frozen=True, kw_only=True)
class Reports:
    """How training speaks to the user; called by the rank that writes the run only."""

    started: Callable[[Run, EnvFacts], None]
    warn: Callable[[str], None]


def plan_training(container: Container, options: TrainOptions) -> TrainJob:
    """Check everything that needs no simulation: names, values, device, motions, run folder, checkpoint.

    Raises:
        ConfigurationError: An option that cannot work, or that contradicts the run to resume.
        DataError: No such run, a damaged checkpoint, a motion that cannot be followed, or runs cannot be written.
    """
    if options.logger not in container.trackers.providers:
        raise ConfigurationError(unknown_name("logger", options.logger, container.trackers.providers))
    if options.resume is not None:
        return _plan_resume(container, options, options.resume)
    if options.task is None:
        raise ConfigurationError("TASK is missing: name one ('unilab tasks' lists them), or give --resume RUN")
    request = Request(
        task=options.task,
        algo=DEFAULT_ALGO if options.algo is None else options.algo,
        sim=DEFAULT_SIM if options.sim is None else options.sim,
        device=AUTO if options.device is None else options.device,
        settings=options.settings,
        overrides=options.overrides,
        learns=True,
        here=not options.dry_run,
    )
    plan = plan_with_motions(container, request, look_around(container), options.announce)
    name = f"seed{plan.config.task.train.seed}" if options.run_name is None else options.run_name
    container.run_store().check(name)
    return TrainJob(plan=plan, name=name, logger=options.logger, quiet=options.quiet, graph=options.graph)


def _plan_resume(container: Container, options: TrainOptions, reference: str) -> TrainJob:
    store: RunStore = container.run_store()
    run = store.find(reference)
    saved = store.read_config(run)
    names = {name: saved_text(saved, name) for name in ("task", "algo", "sim", "device")}
    for name, given in (("task", options.task), ("algo", options.algo), ("sim", options.sim)):
        if given is not None and given != names[name]:
            raise ConfigurationError(
                f"the checkpoint of run {run.path} is of {name} '{names[name]}', not of '{given}': "
                "leave that out, or resume another run"
            )
    # What this machine has may change: where files lie, and how large buffers are.
    fixed = [path for path in options.settings if path not in ("train.iterations", MOTIONS)]
    fixed += ["--set" for override in options.overrides if not override.strip().startswith(f"{SCENE}.")]
    if options.run_name is not None or fixed:
        what = fixed[0] if fixed else "--run-name"
        raise ConfigurationError(
            f"a resumed run keeps its name and values: leave {what} out (--iterations may grow, {SCENE}.* may change)"
        )
    request = Request(
        task=names["task"],
        algo=names["algo"],
        sim=names["sim"],
        device=names["device"] if options.device is None else options.device,
        settings=options.settings,
        overrides=options.overrides,
        saved=saved,
        learns=True,
        here=not options.dry_run,
    )
    plan = plan_with_motions(container, request, look_around(container), options.announce)
    payload = container.checkpoint_store().load(store.newest_checkpoint(run), torch.device("cpu"))
    check_origin(payload, names["task"], names["algo"])
    _check_work_left(plan, payload)
    return TrainJob(
        plan=plan,
        name="",
        logger=options.logger,
        quiet=options.quiet,
        graph=options.graph,
        continued=run,
        payload=payload,
    )


def _check_work_left(plan: Plan, payload: Payload) -> None:
    done, total = payload.get("iteration"), plan.config.task.train.iterations
    if isinstance(done, int) and done > total:
        raise ConfigurationError(f"the run is at iteration {done}, beyond a total of {total}: give a higher one")
    if done == total:
        raise ConfigurationError(f"the run has finished its {total} iterations: give a higher total with --iterations")


def run_training(
    container: Container, job: TrainJob, *, stop: StopFlag, reports: Reports
) -> tuple[Run | None, TrainSummary]:
    """Build environment and learner, make or continue the run folder, and train.

    Returns:
        The run, None on a rank that does not write it, and how it ended.

    Raises:
        UnilabError: What is built refuses its settings (nothing has been written then), or training failed.
        KeyboardInterrupt: ``stop`` was requested before the first iteration; nothing has been written.
    """
    with ExitStack() as claims:
        if job.plan.config.choices.algo in OFF_POLICY_ALGORITHMS:
            return _run_off_policy(container, job, stop, reports, claims)
        return _run_on_policy(container, job, stop, reports, claims)


def _run_on_policy(
    container: Container, job: TrainJob, stop: StopFlag, reports: Reports, claims: ExitStack
) -> tuple[Run | None, TrainSummary]:
    plan, choices = job.plan, job.plan.config.choices
    env = build_env(container, plan, plan.config.task.env)
    claims.callback(env.close)
    if job.graph:
        record_step(container, plan, env)
    learner: OnPolicyLearner = container.learners(choices.algo, _learner_job(plan, env))
    if job.payload is not None:
        # Done again by the training loop; here a misfit is found while the run is untouched.
        learner.load_state_dict(saved_learner(job.payload))
        if learner.writes_run:
            env.load_state_dict(saved_env(job.payload))
    if stop.requested:
        # Asked while everything was being built: there is nothing to save, so nothing is written.
        raise KeyboardInterrupt
    run = _open_run(container, job, claims) if learner.writes_run else None
    if run is not None:
        simulator(container, choices.sim).log_to(run.path)
        reports.started(run, facts_of(env))
    summary = train_on_policy(
        env,
        learner,
        _train_plan(plan),
        _output(container, job, run, reports),
        resume_from=job.payload,
        stop=stop,
    )
    return run, summary


def _run_off_policy(
    container: Container, job: TrainJob, stop: StopFlag, reports: Reports, claims: ExitStack
) -> tuple[Run | None, TrainSummary]:
    # Imported late: learners and their runtime are not needed by other algorithms.
    from entrypoints.off_policy import OffPolicyRun, run_off_policy

    def open_run(facts: EnvFacts) -> tuple[Run, TrainOutput]:
        run = _open_run(container, job, claims)
        reports.started(run, facts)
        return run, _output(container, job, run, reports)

    parts = OffPolicyRun(
        plan=job.plan,
        train=_train_plan(job.plan),
        payload=job.payload,
        stop=stop,
        open_run=open_run,
        graph=job.graph,
    )
    return run_off_policy(container, parts)


def _train_plan(plan: Plan) -> TrainPlan:
    task = plan.config.task
    return TrainPlan(
        task=task.name,
        algo=plan.config.choices.algo,
        iterations=task.train.iterations,
        save_interval=task.train.save_interval,
        log_interval=1 if task.runtime is None else task.runtime.log_interval,
    )


def _output(container: Container, job: TrainJob, run: Run | None, reports: Reports) -> TrainOutput:
    return TrainOutput(
        run=run,
        checkpoints=container.checkpoint_store(),
        sinks=_sinks(container, job, run),
        warn=reports.warn,
        strict=job.plan.config.task.scene.strict_buffers,
    )


def _learner_job(plan: Plan, env: ManagerBasedRlEnv) -> LearnerJob:
    return LearnerJob(
        task=plan.config.task,
        observations=env.observations.current,
        action_dim=env.actions.dim,
        device=plan.device,
    )


def _open_run(container: Container, job: TrainJob, claims: ExitStack) -> Run:
    """Make or continue the run folder, which is this process's own until ``claims`` end."""
    store: RunStore = container.run_store()
    config = job.plan.config
    run = job.continued or store.create(config.task.name, config.choices.algo, job.name)
    claims.enter_context(store.claim(run))
    store.write_config(run, config.values)
    store.write_environment(run, environment_record(container.system(), config.choices))
    return run


def _sinks(container: Container, job: TrainJob, run: Run | None) -> list[MetricSink]:
    if run is None:
        return []
    console = [] if job.quiet else [container.console_sink(job.plan.config.task.train.iterations)]
    return [container.metrics_file(run), *container.trackers(job.logger, run), *console]
