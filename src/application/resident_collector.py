"""A collector for an environment that lives on the learner's device: same grants, slots and rules, and no process."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from application.env_report import report_of
from application.ports import EnvReport, Grant, Published
from domain.env import ManagerBasedRlEnv
from domain.errors import WorkerError
from domain.replay.slots import ChunkHeader, SlotPlan, Slots
from domain.replay.transitions import write_observation, write_transitions
from domain.transfer import Completion, Lane, Transfer

_NAP_S = 5e-5


class ResidentCollector:
    """Steps ``env`` on a lane of its own, by work that is recorded once for each chunk slot.

    The slots lie on the device too. Whether rows broke is not read: a chunk says that all of its rows are valid, and
    the ring looks at their flags. Where none is, the ring passes over the chunk and the host counts it all the same.

    Args:
        env: On the device of ``transfer``; closed by ``close``.
        plan: Sizes of the slots.
        transfer: To the device.
        state: Goes on from this state of an earlier environment, with fresh episodes; None starts anew.
    """

    def __init__(
        self, env: ManagerBasedRlEnv, plan: SlotPlan, transfer: Transfer, state: Mapping[str, Tensor] | None
    ) -> None:
        self._env, self._transfer = env, transfer
        self.slots = Slots.allocate(plan, env.device)
        if state is not None:
            env.load_state_dict(state)
        self._sequence = 0
        self._granted: Grant | None = None
        self._work: Completion | None = None
        self._steps: tuple[Callable[[], None], ...] = ()

    def wait_ready(self, timeout_s: float) -> None:
        """Record the step and begin the first episodes."""
        if self._steps:
            return
        env, slots = self._env, self.slots
        with env.kept_state():
            works = [partial(self._step, block) for block in slots.chunks]
            # The environment was built and reset on the learner's lane.
            self._run(Lane.LEARNER, _nothing, timeout_s)
            for work in works:
                self._run(Lane.ENV, work, timeout_s)
            self._steps = tuple(self._transfer.record(work, env.generator) for work in works)
        write_observation(slots.plan, slots.observation, env.reset(stagger=True), None)

    def grant(self, grant: Grant) -> None:
        """Submit the step."""
        self._granted = grant
        self._work = self._transfer.submit(Lane.ENV, self._steps[grant.slot])

    def wait(self, timeout_s: float) -> Published:
        """Wait for the step."""
        grant, work = self._granted, self._work
        if grant is None or work is None:
            raise WorkerError("there is no tick to wait for: none was granted")
        self._wait(work, timeout_s, f"the env step of tick {grant.tick} (runtime.tick_timeout_s)")
        self._granted = self._work = None
        plan = self.slots.plan
        header = ChunkHeader(
            sequence=self._sequence,
            tick=grant.tick,
            slot=grant.slot,
            policy_version=grant.policy_version,
            rows=plan.num_envs,
            valid=plan.num_envs,
            checksum=None,
        )
        self._sequence += 1
        began, ended = work.span()
        report: EnvReport | None = report_of(self._env) if grant.report else None
        state = self._env.state_dict() if grant.state else None
        return Published(header=header, began=began, ended=ended, report=report, state=state)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _step(self, block: Tensor) -> None:
        """Device work: one env step from the action slot, its transitions, and the next observation."""
        env, slots = self._env, self.slots
        plan = slots.plan
        # The step writes what the next action answers over what this one did.
        before = {group: value.clone() for group, value in env.observations.current.items()}
        action = plan.action(slots.action)
        result = env.step_recorded(action)
        write_transitions(plan, block, before, action, result)
        write_observation(plan, slots.observation, result.observations, result.terminated | result.truncated)

    def _run(self, lane: Lane, work: Callable[[], None], timeout_s: float) -> None:
        self._wait(self._transfer.submit(lane, work), timeout_s, "the first env steps (runtime.start_timeout_s)")

    def _wait(self, work: Completion, timeout_s: float, what: str) -> None:
        deadline = time.perf_counter() + timeout_s
        while not work.done():
            if time.perf_counter() > deadline:
                raise WorkerError(f"not ended on {self._transfer.device} within {timeout_s:g} s: {what}")
            time.sleep(_NAP_S)


def _nothing() -> None:
    """Is done when all before it is."""
