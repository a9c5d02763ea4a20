"""Composition of ``unilab eval``: a saved policy in its task, beside doing nothing and acting at random."""

import dataclasses
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from application.evaluate import Evaluation, evaluate, random_policy, zero_policy
from application.planning import AUTO, Plan, Request
from application.ports import Policy, Run, RunStore
from application.training import check_origin, saved_learner
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, DataError
from domain.physics import Execution
from domain.rng import derive_seed
from entrypoints.composition import build_env, look_around, record_step, saved_text, simulator
from entrypoints.container import Container, LearnerJob
from entrypoints.motions import motion_settings, plan_with_motions

VIDEO = ".mp4"
MOST_ENVS = 1024
"""Environments that an evaluation steps at once unless told otherwise; with more episodes each plays several."""


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What the command line gave; None where an option was left out."""

    run: str
    episodes: int
    sim: str | None = None
    device: str | None = None
    num_envs: int | None = None
    seed: int | None = None
    checkpoint: Path | None = None
    motions: Sequence[str] = ()
    """Reference motions instead of the run's."""
    video: Path | None = None
    video_seconds: float = 20.0
    """How much of the first episode a video shows."""
    baselines: bool = False
    announce: Callable[[str], None] = lambda line: None
    """Told what takes a while, when all that can be refused has been looked at."""


@dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What an evaluation found, by policy, the trained one first."""

    run: Run
    checkpoint: Path
    task: str
    sim: str
    figures: Mapping[str, Evaluation]
    own_sim: Evaluation | None
    """What the policy does in the simulator that it was trained in, where that is another one."""
    note: str | None
    """Why that is not known, where it is not."""
    video: Path | None
    still: Path | None


def run_evaluation(container: Container, options: EvalOptions) -> EvalReport:
    """Play whole episodes with the run's policy and record env 0 where asked.

    Raises:
        ConfigurationError: An option that cannot work, or no display library for a video.
        DataError: No such run, or a checkpoint that is missing, damaged or of another task.
    """
    if options.video is not None and options.video.suffix != VIDEO:
        raise ConfigurationError(f"--video is '{options.video}': name a file that ends in {VIDEO}")
    if not 0.0 < options.video_seconds < math.inf:
        raise ConfigurationError(f"--video-seconds is {options.video_seconds}: give a number of seconds above 0")
    if options.video is not None:
        check_place(options.video, "--video")
    store: RunStore = container.run_store()
    run = store.find(options.run)
    saved = store.read_config(run)
    plan = _plan(container, options, saved)
    checkpoint = options.checkpoint or store.newest_checkpoint(run)
    payload = container.checkpoint_store().load(checkpoint, torch.device("cpu"))
    check_origin(payload, plan.config.task.name, plan.config.choices.algo)
    if options.video is not None:
        container.choose_display()()
    figures = _play_run(container, plan, payload, options)
    own_sim, note = _play_in_own_sim(container, saved, payload, options)
    still = _record(container, plan, figures["policy"], options)
    return EvalReport(
        run=run,
        checkpoint=checkpoint,
        task=plan.config.task.name,
        sim=plan.config.choices.sim,
        figures=figures,
        own_sim=own_sim,
        note=note,
        video=options.video,
        still=still,
    )


def _play_run(
    container: Container, plan: Plan, payload: Mapping[str, object], options: EvalOptions
) -> dict[str, Evaluation]:
    """Play the run's policy, and the others that are asked for, in the plan's simulator."""
    # An evaluation counts whole episodes, so none may start at a random age.
    env = build_env(container, plan, dataclasses.replace(plan.config.task.env, stagger_episodes=False))
    try:
        record_step(container, plan, env)
        job = LearnerJob(
            task=plan.config.task,
            observations=env.observations.current,
            action_dim=env.actions.dim,
            device=plan.device,
        )
        policy: Policy = container.policies(plan.config.choices.algo, job, saved_learner(payload))
        return _play(env, policy, options, plan)
    finally:
        env.close()


def _play_in_own_sim(
    container: Container, saved: dict[str, object], payload: Mapping[str, object], options: EvalOptions
) -> tuple[Evaluation | None, str | None]:
    """Play the policy where it was trained too, if that is another simulator and at home on this machine."""
    own = saved_text(saved, "sim")
    if options.sim in (None, own):
        return None, None
    alone = dataclasses.replace(options, sim=own, video=None, baselines=False)
    try:
        plan = _plan(container, alone, saved)
        execution = simulator(container, own).capabilities.execution
        if execution is Execution.DEVICE_RESIDENT and plan.device.type != "cuda":
            return None, f"no comparison with simulator '{own}', where it was trained: that takes a CUDA GPU"
        return _play_run(container, plan, payload, alone)["policy"], None
    except ConfigurationError as error:
        return None, f"no comparison with simulator '{own}', where it was trained: {error}"


def check_place(file: Path, option: str) -> None:
    """Raise DataError where a file could not be written once the episodes are played; leaves nothing behind."""
    nearest = file.absolute().parent
    while not nearest.exists():
        nearest = nearest.parent
    try:
        # Permissions alone do not tell: a folder may be read-only for everybody.
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise DataError(f"{option} is '{file}': it cannot be written to {nearest}: {error.strerror}") from error
    if file.is_dir():
        raise DataError(f"{option} is '{file}': that is a folder, name a file")


def _plan(container: Container, options: EvalOptions, saved: dict[str, object]) -> Plan:
    if options.episodes < 1:
        raise ConfigurationError(f"--episodes is {options.episodes}: evaluate at least 1")
    settings: dict[str, object] = {
        "train.num_envs": min(options.episodes, MOST_ENVS) if options.num_envs is None else options.num_envs
    }
    settings |= motion_settings(options.motions)
    if options.seed is not None:
        settings["train.seed"] = options.seed
    request = Request(
        task=saved_text(saved, "task"),
        algo=saved_text(saved, "algo"),
        sim=saved_text(saved, "sim") if options.sim is None else options.sim,
        device=AUTO if options.device is None else options.device,
        settings=settings,
        saved=saved,
    )
    return plan_with_motions(container, request, look_around(container), options.announce)


def _play(env: ManagerBasedRlEnv, policy: Policy, options: EvalOptions, plan: Plan) -> dict[str, Evaluation]:
    seed, sim = plan.config.task.train.seed, plan.config.choices.sim
    policies = {"policy": policy}
    if options.baselines:
        policies["zero"] = zero_policy(env.actions.dim)
        policies["random"] = random_policy(env.actions.dim, derive_seed(seed, "random actions"), env.device)
    figures = {}
    for name, chosen in policies.items():
        options.announce(f"playing {options.episodes} episodes of {name} on {sim}")
        # Every policy meets the same first states and commands.
        env.reset(seed=seed)
        record = name == "policy" and options.video is not None
        figures[name] = evaluate(env, chosen, episodes=options.episodes, record_env0=record)
    return figures


def _record(container: Container, plan: Plan, figures: Evaluation, options: EvalOptions) -> Path | None:
    if options.video is None or figures.qpos is None:
        return None
    still = options.video.with_suffix(".png")
    options.announce("drawing the video")
    fps = 1.0 / plan.config.task.env.step_dt
    frames = figures.qpos[: max(1, round(options.video_seconds * fps))].cpu()
    container.recorder().record(plan.scene, frames, fps, video=options.video, still=still)
    return still
