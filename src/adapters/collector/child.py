"""The collector's own process: builds the environment, then one step for each grant."""

import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from adapters.collector.lifeline import tie_to_parent
from adapters.collector.messages import Built, Failed, Job, Ready, Ticked, packed, unpacked
from application.env_report import report_of
from application.ports import Grant
from domain.env import ManagerBasedRlEnv
from domain.errors import ConfigurationError, WorkerError
from domain.replay.slots import ChunkHeader, SlotPlan, checksum
from domain.replay.transitions import ACTOR, CRITIC, write_observation, write_transitions


class _ParentLeftError(Exception):
    """The other end of the pipe is closed: nobody wants anything any more."""


def run(job: Job, connection: Connection) -> None:
    """Serve grants until the parent closes its end, and report what went wrong before ending.

    The process ends with 0 when it was no longer wanted, with 1 after an error.
    """
    tie_to_parent(dies_with_thread=job.dies_with_thread)
    # The environment's tensors are small: a second thread would only take a CPU from the physics.
    torch.set_num_threads(1)
    loop = _Loop(job, connection)
    try:
        loop.run()
    except _ParentLeftError:
        pass
    except BaseException as error:
        # Also what is no Exception: the parent waits, and whatever ends this process is worth telling.
        loop.tell(Failed.of(error, loop.place))
        raise SystemExit(1) from error
    finally:
        loop.close()


class _Loop:
    """The environment between two grants, and where it is."""

    def __init__(self, job: Job, connection: Connection) -> None:
        self._job = job
        self._connection = connection
        self._env: ManagerBasedRlEnv | None = None
        self._observations: Mapping[str, Tensor] = {}
        self._published = 0
        self._tick: int | None = None
        self._phase = "build"

    @property
    def place(self) -> str:
        """Tick and phase, for a message."""
        return f"phase '{self._phase}'" if self._tick is None else f"tick {self._tick}, phase '{self._phase}'"

    def run(self) -> None:
        """Build, reset, and step until the parent has left."""
        env = self._env = self._job.builder()
        check_fits(env, self._job.slots.plan)
        self._start(env)
        while True:
            self._phase = "grant"
            heard = self._hear()
            began = time.perf_counter()
            grant = self._accept(heard)
            message = self._step(env, grant, began)
            self._phase = "publish"
            self._send(message)

    def tell(self, message: Failed) -> None:
        """Send a last message, if anyone listens."""
        try:
            self._send(message)
        except _ParentLeftError:
            return

    def close(self) -> None:
        """Close the environment and this end of the pipe."""
        try:
            if self._env is not None:
                self._env.close()
        finally:
            self._connection.close()

    def _start(self, env: ManagerBasedRlEnv) -> None:
        if self._job.continues:
            self._phase = "load state"
            self._send(Built())
            content = self._hear()
            if not isinstance(content, bytes):
                raise WorkerError(f"the collector wants a state to continue from, not {type(content).__name__}")
            env.load_state_dict(unpacked(content))
        self._phase = "reset"
        self._observations = env.reset(stagger=True)
        slots = self._job.slots
        write_observation(slots.plan, slots.observation, self._observations, None)
        self._send(Ready())

    def _accept(self, grant: object) -> Grant:
        """Note which tick begins. Raises WorkerError for a grant that cannot come next."""
        if not isinstance(grant, Grant):
            raise WorkerError(f"the collector wants a grant, not {type(grant).__name__}")
        if self._tick is not None and grant.tick != self._tick + 1:
            raise WorkerError(f"tick {grant.tick} was granted after tick {self._tick}: ticks follow one another")
        if not 0 <= grant.slot < len(self._job.slots.chunks):
            raise WorkerError(f"slot {grant.slot} was granted: there are {len(self._job.slots.chunks)}, from 0")
        self._tick = grant.tick
        return grant

    def _step(self, env: ManagerBasedRlEnv, grant: Grant, began: float) -> Ticked:
        slots = self._job.slots
        plan, block = slots.plan, slots.chunks[grant.slot]
        self._phase = "step"
        action = plan.action(slots.action).clone()
        result = env.step(action)
        self._phase = "write"
        write_transitions(plan, block, self._observations, action, result)
        # A grant says that the last observation has been copied, so its slot is free as well.
        write_observation(plan, slots.observation, result.observations, result.terminated | result.truncated)
        self._observations = result.observations
        header = ChunkHeader(
            sequence=self._published,
            tick=grant.tick,
            slot=grant.slot,
            policy_version=grant.policy_version,
            rows=plan.num_envs,
            valid=int(result.valid.sum()),
            checksum=int(checksum(block)) if self._job.checksums else None,
        )
        self._published += 1
        ticked = Ticked(header=header, began=began, ended=time.perf_counter(), report=None, state=None)
        if grant.report:
            self._phase = "report"
            ticked = replace(ticked, report=report_of(env))
        if grant.state:
            self._phase = "save state"
            ticked = replace(ticked, state=packed(env.state_dict()))
        return ticked

    def _hear(self) -> object:
        try:
            heard: object = self._connection.recv()
        except (EOFError, OSError) as error:
            raise _ParentLeftError from error
        return heard

    def _send(self, message: Built | Ready | Ticked | Failed) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise _ParentLeftError from error


def check_fits(env: ManagerBasedRlEnv, plan: SlotPlan) -> None:
    """Compare what was built with the slots.

    Raises:
        ConfigurationError: Another number of envs, width or group than the slots were made for, or not on the CPU.
    """
    if env.device.type != "cpu":
        raise ConfigurationError(f"the collector steps environments on the CPU, and this one is on {env.device}")
    layout, widths = plan.layout, env.observations.widths
    wanted = {"num_envs": plan.num_envs, "action": layout.action, f"observations.{ACTOR}": layout.obs}
    built = {"num_envs": env.num_envs, "action": env.actions.dim, f"observations.{ACTOR}": widths.get(ACTOR, 0)}
    if layout.critic:
        wanted[f"observations.{CRITIC}"] = layout.critic
        built[f"observations.{CRITIC}"] = widths.get(CRITIC, 0)
    for name, size in wanted.items():
        if built[name] != size:
            raise ConfigurationError(
                f"the environment that the collector has built has {name} {built[name]}, and the slots are made for "
                f"{size}: make both from one configuration"
            )
