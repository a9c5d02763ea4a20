"""What is drawn for a short run: sizes, a fault, and the ending that the fault must have."""

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from benchmarks.soak.devices import Mishap
from benchmarks.soak.world import Trouble, World
from domain.errors import ConfigurationError, SimulationError, WorkerError
from domain.replay.replay import ReplayPlan
from domain.replay.slots import SlotPlan

HANG_S = 3.0
"""Time-out of a tick where something hangs."""
PATIENT_S = 30.0
"""Time-out of all other ticks."""


class Fault(StrEnum):
    """What is done to a run."""

    NONE = "none"
    DELAYS = "delays"
    INVALID_ROWS = "invalid_rows"
    INVALID_CHUNKS = "invalid_chunks"
    ALL_BROKEN = "all_broken"
    BUILD = "build_error"
    RESET = "reset_error"
    STEP = "step_error"
    KILL = "collector_killed"
    FREEZE = "collector_frozen"
    FAILURE = "device_failure"
    HANG = "device_hang"
    LATE = "late_copy"
    DAMAGE = "damaged_chunk"
    INTERRUPT = "keyboard_interrupt"
    STOP = "stop_flag"
    RESUME = "killed_and_resumed"
    PARENT = "parent_killed"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run has to end."""

    error: type[BaseException] | None = None
    """None ends well."""
    words: str = ""
    """Part of the message."""


ENDINGS: dict[Fault, Ending] = {
    Fault.ALL_BROKEN: Ending(error=SimulationError, words="reward/paid broke every one of the"),
    Fault.BUILD: Ending(error=ConfigurationError, words="planted in a build"),
    Fault.RESET: Ending(error=WorkerError, words="ZeroDivisionError: planted in a reset"),
    Fault.STEP: Ending(error=WorkerError, words="ZeroDivisionError: planted in a step"),
    Fault.KILL: Ending(error=WorkerError, words="was ended by SIGKILL"),
    Fault.FREEZE: Ending(error=WorkerError, words="the collector did not finish tick"),
    Fault.FAILURE: Ending(error=WorkerError, words="the GPU failed: planted"),
    Fault.HANG: Ending(error=WorkerError, words="has not ended on"),
    Fault.DAMAGE: Ending(error=WorkerError, words="shared memory or the copy is damaged"),
    Fault.INTERRUPT: Ending(error=KeyboardInterrupt),
    Fault.RESUME: Ending(error=WorkerError, words="was ended by SIGKILL"),
}
"""Of faults that end a run badly; all others let it end well."""
MISHAPS = {
    Fault.FAILURE: Mishap.FAILURE,
    Fault.HANG: Mishap.HANG,
    Fault.LATE: Mishap.LATE,
    Fault.DAMAGE: Mishap.DAMAGE,
}
_TROUBLES = {Fault.BUILD: Trouble.BUILD, Fault.RESET: Trouble.RESET, Fault.STEP: Trouble.STEP}
_RARE = (Fault.PARENT, Fault.FREEZE, Fault.HANG)
"""They take seconds each."""


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One run."""

    number: int
    fault: Fault
    tick: int
    """In which the fault happens, from 0."""
    delay_s: float
    """After the tick's begin."""
    skip: int
    """Pieces of device work that are spared in that tick."""
    world: World
    replay: ReplayPlan
    learning_start: int
    sac: bool
    checksums: bool
    slowest: int
    """Of the fake device."""
    iterations: int
    log_interval: int
    save_interval: int

    @property
    def ending(self) -> Ending:
        """How it has to end."""
        return ENDINGS.get(self.fault, Ending())

    @property
    def tick_timeout_s(self) -> float:
        """How long one thing of a tick may take."""
        return HANG_S if self.fault in (Fault.FREEZE, Fault.HANG) else PATIENT_S

    @property
    def resumed(self) -> "Episode":
        """The same without its fault."""
        return replace(self, fault=Fault.NONE)


def draw_episode(seed: int, number: int, fault: Fault | None = None) -> Episode:
    """Return episode ``number`` of a soak, always the same one; ``fault`` takes the place of the drawn one."""
    rng = random.Random(f"{seed}/{number}")
    # Rare ones get a third of the others' share.
    drawn = rng.choices(tuple(Fault), weights=[1 if f in _RARE else 3 for f in Fault])[0]
    fault = fault or drawn
    iterations = rng.randint(60, 400)
    tick = rng.randint(1, iterations - 40)
    save_interval = rng.randint(5, 40)
    log_interval = rng.randint(8, 30)
    if fault is Fault.RESUME:
        save_interval = rng.randint(1, 1 + tick // 2)
    if fault is Fault.ALL_BROKEN:
        iterations = max(iterations, tick + 2 * log_interval + 2)
    world = _draw_world(rng, fault, tick)
    replay = _draw_replay(rng, world)
    return Episode(
        number=number,
        fault=fault,
        tick=tick,
        delay_s=rng.choice((0.0, rng.uniform(0.0, 0.005))),
        skip=rng.randint(0, 2) if fault is not Fault.DAMAGE else 0,
        world=world,
        replay=replay,
        learning_start=rng.randint(1, replay.capacity),
        sac=rng.random() < 0.4,
        checksums=fault is Fault.DAMAGE or rng.random() < 0.6,
        slowest=rng.choice((0, 1, 4, 20, 100)),
        iterations=iterations,
        log_interval=log_interval,
        save_interval=save_interval,
    )


def _draw_world(rng: random.Random, fault: Fault, tick: int) -> World:
    bad_rows = rng.choice((0.0, 0.0, 0.02))
    return World(
        seed=rng.randrange(1 << 20),
        num_envs=rng.choice((1, 2, 3, 5, 8, 17, 48)),
        critic=rng.random() < 0.5,
        episode_steps=rng.choice((1, 2, 7, 30, 1000)),
        bad_rows=rng.uniform(0.05, 0.5) if fault in (Fault.INVALID_ROWS, Fault.INVALID_CHUNKS) else bad_rows,
        bad_chunks=rng.uniform(0.05, 0.4) if fault is Fault.INVALID_CHUNKS else 0.0,
        failures=rng.choice((0.0, 0.02, 0.2)),
        delay_s=rng.choice((0.001, 0.02)) if fault is Fault.DELAYS else 0.0,
        hang_step=tick if fault is Fault.PARENT and rng.random() < 0.5 else None,
        broken_from=tick + 1 if fault is Fault.ALL_BROKEN else None,
        trouble=_TROUBLES.get(fault, Trouble.NONE),
        trouble_step=tick + 1,
    )


def _draw_replay(rng: random.Random, world: World) -> ReplayPlan:
    envs = world.num_envs
    chunks = rng.choice((1, 2, 3, 7, 30, 120))
    return ReplayPlan(
        slots=SlotPlan(layout=world.layout, num_envs=envs),
        capacity=chunks * envs + rng.choice((0, 1, envs - 1, rng.randrange(envs))),
        updates=rng.randint(1, 3),
        batch_size=rng.choice((1, 4, 16)),
        gamma=0.9,
        n_step=rng.randint(1, 4),
        seed=rng.randrange(1 << 20),
    )
