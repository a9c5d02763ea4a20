"""The use case of on-policy training: rollout, update, metrics, checkpoint, and again."""

import contextlib
import time
from collections.abc import Mapping

from application.env_report import report_of
from application.ports import Observations, OnPolicyLearner
from application.training import (
    Progress,
    StopFlag,
    TrainOutput,
    TrainPlan,
    TrainSummary,
    report,
    save,
    saved_env,
    saved_learner,
)
from domain.env import ManagerBasedRlEnv

TIMING_METRICS = frozenset({"env_steps_per_sec", "tail_env_steps_per_sec", "tail_iterations", "collect_s", "update_s"})
"""What differs between equal runs."""


def train_on_policy(
    env: ManagerBasedRlEnv,
    learner: OnPolicyLearner,
    plan: TrainPlan,
    output: TrainOutput,
    *,
    resume_from: Mapping[str, object] | None = None,
    stop: StopFlag | None = None,
) -> TrainSummary:
    """Train until the plan's last iteration or until ``stop`` is requested.

    Args:
        env: Freshly built; its state is replaced by a checkpoint's. The caller closes it.
        learner: Built for this environment.
        plan: Task, algorithm, iterations.
        output: Checkpoints and metrics go here, from the rank that writes the run.
        resume_from: A loaded checkpoint, tensors on the CPU.
        stop: Asked once an iteration.

    Raises:
        DataError: The checkpoint is of another task or algorithm, or does not fit.
        ConfigurationError: Nothing is left to do after the checkpoint.
    """
    stop = stop or StopFlag()
    with contextlib.ExitStack() as sinks:
        for sink in output.sinks:
            sinks.callback(sink.close)
        progress, observations = _start(env, learner, plan, resume_from)
        ending = stop.requested
        while not ending:
            observations = _iterate(env, learner, progress, observations)
            if learner.writes_run:
                report(progress, report_of(env), output, learner.rollout_steps * env.num_envs)
            # Read once: a request between saving and looping would end the run without its checkpoint.
            ending = stop.requested or progress.iteration >= plan.iterations
            if (ending or progress.iteration % plan.save_interval == 0) and learner.writes_run:
                save(progress, plan, output, {"learner": learner.state_dict(), "env": env.state_dict()})
        return progress.summary(plan)


def _start(
    env: ManagerBasedRlEnv, learner: OnPolicyLearner, plan: TrainPlan, resume_from: Mapping[str, object] | None
) -> tuple[Progress, Observations]:
    if resume_from is None:
        # Recording its step has reset it before: asked for by name, or all rows would time out together.
        return Progress(), env.reset(stagger=True)
    progress = Progress.continued(resume_from, plan)
    learner.load_state_dict(saved_learner(resume_from))
    if not learner.writes_run:
        # One saved state would give every rank the same episodes; the others start fresh ones of their own seed.
        return progress, env.reset(stagger=True)
    env.load_state_dict(saved_env(resume_from))
    return progress, {group: value.clone() for group, value in env.observations.current.items()}


def _iterate(
    env: ManagerBasedRlEnv, learner: OnPolicyLearner, progress: Progress, observations: Observations
) -> Observations:
    """Collect a rollout, learn from it, and count."""
    start = time.perf_counter()
    for _ in range(learner.rollout_steps):
        result = env.step(learner.act(observations))
        learner.record(result)
        observations = result.observations
    collected = time.perf_counter()
    losses = learner.update(observations)
    end = time.perf_counter()
    progress.count(learner.rollout_steps * env.num_envs * learner.world_size, end - start)
    progress.metrics = {**losses, **progress.rates(), "collect_s": collected - start, "update_s": end - collected}
    return observations
