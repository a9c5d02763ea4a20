"""Whole off-policy runs with the real collector process, and a fake transfer on CPU tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adapters.checkpoints.torch_store import TorchCheckpointStore
from application.planning import Request, make_plan
from application.ports import Run
from application.training import StopFlag, TrainOutput, TrainPlan, TrainSummary
from domain.transfer import Transfer
from entrypoints.composition import EnvFacts, look_around, make_container
from entrypoints.off_policy import OffPolicyRun, run_off_policy
from tests.support.fake_transfer import FakeTransfer

TINY: Mapping[str, tuple[str, ...]] = {
    "sac": ("sac.actor_hidden=[16]", "sac.critic_hidden=[16]"),
    "td3": ("td3.actor_hidden=[16]", "td3.critic_hidden=[16]"),
    "flashsac": ("flashsac.actor_width=8", "flashsac.critic_width=8", "flashsac.blocks=1"),
}


class Rows:
    """A sink that keeps every row."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}

    def write(self, iteration: int, metrics: Mapping[str, float]) -> None:
        self.rows[iteration] = dict(metrics)

    def close(self) -> None:
        pass


@dataclass
class Trial:
    """A small run of a task that really exists."""

    folder: Path
    task: str = "cartpole_balance"
    algo: str = "sac"
    num_envs: int = 4
    iterations: int = 12
    settings: Sequence[str] = ()
    save_interval: int = 10
    log_interval: int = 4
    rows: Rows = field(default_factory=Rows)
    warnings: list[str] = field(default_factory=list)
    facts: list[EnvFacts] = field(default_factory=list)
    stop: StopFlag = field(default_factory=StopFlag)

    def run(
        self,
        *,
        transfer: Transfer | None = None,
        payload: dict[str, object] | None = None,
        on_start: Callable[[], None] = lambda: None,
    ) -> TrainSummary:
        container = make_container(self.folder)
        name = self.algo
        learner = (f"{name}.batch_size=16", f"{name}.updates_per_step=2", f"{name}.learning_start_rows=24")
        more = (f"{name}.replay_rows=400", f"train.num_envs={self.num_envs}", f"train.iterations={self.iterations}")
        request = Request(
            task=self.task,
            algo=name,
            sim="mujoco",
            device="cpu",
            overrides=(*learner, *more, *TINY[name], *self.settings),
        )
        plan = make_plan(request, look_around(container))

        def open_run(facts: EnvFacts) -> tuple[Run, TrainOutput]:
            opened = self.open_run(facts)
            on_start()
            return opened

        parts = OffPolicyRun(plan=plan, train=self.plan(), payload=payload, stop=self.stop, open_run=open_run)
        _, summary = run_off_policy(container, parts, transfer=transfer or FakeTransfer())
        return summary

    def plan(self) -> TrainPlan:
        return TrainPlan(
            task=self.task,
            algo=self.algo,
            iterations=self.iterations,
            save_interval=self.save_interval,
            log_interval=self.log_interval,
        )

    def open_run(self, facts: EnvFacts) -> tuple[Run, TrainOutput]:
        self.facts.append(facts)
        self.folder.mkdir(parents=True, exist_ok=True)
        return Run(path=self.folder), TrainOutput(
            run=Run(path=self.folder),
            checkpoints=TorchCheckpointStore(),
            sinks=[self.rows],
            warn=self.warnings.append,
        )
