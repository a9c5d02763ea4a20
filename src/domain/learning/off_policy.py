"""The part that SAC, TD3 and FlashSAC share: batches, the update cycle, the random stream, metrics and the payload."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar, Generic, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from domain.errors import ConfigurationError
from domain.learning import payload
from domain.learning.categorical import Support
from domain.learning.config import ExecutionCfg, OffPolicyCfg
from domain.learning.cycles import UpdateCycles
from domain.learning.kernels import PLAIN, AdamWCfg, Kernels
from domain.learning.learner import LearnerPlan
from domain.learning.network import Network
from domain.learning.optimization import Stepper
from domain.learning.running_moments import ObservationNormalizer
from domain.replay.batch import TransitionBatch
from domain.rng import derive_seed

Cfg = TypeVar("Cfg", bound=OffPolicyCfg)
Loss = Callable[..., tuple[Tensor, ...]]

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class UpdateInputs:
    """What updates read, float32, observations normalised where that is on.

    ``obs``, ``critic_obs`` and their successors are (U, B, width), ``state_action`` (U, B, critic width + A),
    ``reward`` and ``discount`` (U, B), ``noise`` (U, draws, B, A); without the leading axis for one update.
    """

    obs: Tensor
    next_obs: Tensor
    critic_obs: Tensor
    next_critic_obs: Tensor
    state_action: Tensor
    reward: Tensor
    discount: Tensor
    noise: Tensor

    def at(self, u: int) -> "UpdateInputs":
        """Return the inputs of update ``u``."""
        return UpdateInputs(*(getattr(self, field.name)[u] for field in fields(self)))


class OffPolicyLearner(Generic[Cfg]):
    """A learner bound to two batches; subclasses build networks, then call ``_finish``, and do single updates.

    Args:
        cfg: Of the algorithm.
        plan: Environment and machine.
        batches: Hot and cold batch, which others fill between updates.
        execution: How updates run; it changes speed, not what is computed.
        kernels: Do the costly operations; plain Torch where None.

    Raises:
        ConfigurationError: Batches that do not fit ``cfg`` and ``plan``, or graphs without a CUDA device.
    """

    kind: ClassVar[str]
    draws: ClassVar[int] = 2
    """Samples of the policy that one update needs."""
    critic_metrics: ClassVar[tuple[str, ...]]
    actor_metrics: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        cfg: Cfg,
        plan: LearnerPlan,
        batches: tuple[TransitionBatch, TransitionBatch],
        execution: ExecutionCfg,
        kernels: Kernels | None = None,
    ) -> None:
        for batch in batches:
            _check_batch(batch, cfg, plan)
        if execution.graph and plan.device.type != "cuda":
            raise ConfigurationError(f"update graphs need a CUDA device, not '{plan.device}': set graph to false")
        self._cfg, self._plan, self._batches, self._execution = cfg, plan, batches, execution
        self._kernels: Kernels = PLAIN if kernels is None else kernels
        self.generator = torch.Generator(device=plan.device)
        self.generator.manual_seed(derive_seed(plan.seed, "learner"))
        self._init = torch.Generator()
        self._init.manual_seed(derive_seed(plan.seed, "init"))
        shape = (cfg.updates_per_step, self.draws, cfg.batch_size, plan.layout.action)
        self.noise = torch.zeros(shape, device=plan.device)
        self._share = torch.zeros((), device=plan.device)
        self._support = Support(cfg.v_min, cfg.v_max, cfg.atoms, plan.device)
        self._critic_values = torch.zeros(len(self.critic_metrics), device=plan.device)
        self._actor_values = torch.full((len(self.actor_metrics),), torch.nan, device=plan.device)
        values = [*self._critic_values.unbind(), *self._actor_values.unbind()]
        names = (*self.critic_metrics, *self.actor_metrics)
        self._metrics = MappingProxyType(dict(zip(names, values, strict=True)))
        self._obs_normalizer: ObservationNormalizer | None = None
        self._critic_normalizer: ObservationNormalizer | None = None
        self._networks: dict[str, Network] = {}
        self._parts: dict[str, nn.Module] = {}
        self._scalars: dict[str, Tensor] = {}
        self._steppers: dict[str, tuple[Stepper, Callable[[Tensor], dict[str, Tensor]]]] = {}
        streams = plan.device.type == "cuda" and not execution.compile
        self._side = torch.cuda.Stream(plan.device) if streams else None
        self._updates = 0
        self._version = 0

    @property
    def policy_version(self) -> int:
        """How many cycles of updates the actor has been through."""
        return self._version

    def start_episodes(self, mask: Tensor) -> None:
        """Tell which rows, (num_envs,) bool, begin a new episode; nothing lasts longer than a step here."""

    def update(self, slot: int) -> Mapping[str, Tensor]:
        """Do the updates of one cycle on batch ``slot``; see ``Learner.update``."""
        if slot not in (0, 1):
            raise ConfigurationError(f"update() got slot {slot}: a learner is bound to two batches, 0 and 1")
        self._cycles.run(slot, self._updates)
        self._updates += self._cfg.updates_per_step
        self._version += 1
        return self._metrics

    def __deepcopy__(self, memo: object) -> NoReturn:
        """Refuse: a copy's networks would not be the ones that its optimisers move."""
        raise ConfigurationError("a learner is not copied: build another one and load its state_dict()")

    def state_dict(self) -> dict[str, object]:
        """Return copies of all that the future depends on, in the form of ``domain.learning.payload``."""
        counters = {"updates": self._updates, "policy_version": self._version}
        return payload.pack(self.kind, self._shape(), self._live(), counters, self.generator)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a payload, whatever device it was saved on.

        On a device of another type the random stream begins anew, with numbers of its own for that point of the run.

        Raises:
            DataError: The payload is of another learner, version or shape, or damaged; nothing has changed then.
        """
        tensors, counters, rng = payload.unpack(state, self.kind, self._shape(), self._live())
        payload.restore_generator(self.generator, rng, derive_seed(self._plan.seed, f"learner/{counters['updates']}"))
        self._restore(tensors)
        self._updates, self._version = counters["updates"], counters["policy_version"]

    # What subclasses provide and use.

    def _learn(self, inputs: UpdateInputs, actor_turn: bool) -> tuple[list[Tensor], list[Tensor]]:
        """Do one update; return the values of critic metrics and, on the actor's turn, of actor metrics."""
        raise NotImplementedError

    def _network_shape(self) -> dict[str, object]:
        """Name what decides the shape and meaning of the networks, as plain data."""
        raise NotImplementedError

    @property
    def _critic_width(self) -> int:
        return self._plan.layout.critic or self._plan.layout.obs

    def _adopt(self, name: str, part: nn.Module) -> None:
        """Move a part to the learner's device and make it part of the payload."""
        self._parts[name] = part.to(self._plan.device)

    def _adopt_networks(self, actor: nn.Module, critic: nn.Module) -> None:
        """Make actor, critics and target critics ready to learn, and part of the payload."""
        target = copy.deepcopy(critic)
        for name, module in (("actor", actor), ("critic", critic), ("target", target)):
            self._adopt(name, module)
            self._networks[name] = Network(module, _TYPES[self._execution.precision], self._kernels)
        self._actor_network, self._critic, self._target = self._networks.values()

    def _adopt_normalizers(self, actor: ObservationNormalizer) -> None:
        """Normalise observations: the actor's by its own normaliser, the critics' by one that stands beside them."""
        self._obs_normalizer, self._critic_normalizer = actor, ObservationNormalizer(self._critic_width)
        self._adopt("actor_normalizer", self._obs_normalizer)
        self._adopt("critic_normalizer", self._critic_normalizer)

    def _optimize(self, name: str, cfg: AdamWCfg) -> Stepper:
        """Return an optimiser of a network, or of a number called ``name``, that is part of the payload."""
        network = self._networks.get(name)
        weights = self._scalars[name] if network is None else network.weights
        stepper = Stepper(weights, cfg, self._kernels)
        named = (lambda block: {name: block[0]}) if network is None else network.views
        self._steppers[f"{name.removeprefix('log_')}_optimizer"] = (stepper, named)
        return stepper

    def _scalar(self, name: str, value: float) -> Tensor:
        """Return a learnt number, (1,), that is part of the payload."""
        self._scalars[name] = torch.full((1,), value, device=self._plan.device)
        return self._scalars[name]

    def _compiled(self, loss: Loss) -> Loss:
        compiled: Loss = torch.compile(loss, dynamic=False) if self._execution.compile else loss
        return compiled

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Run on the device beside what follows, until ``_together``; on a CPU nothing is beside anything."""
        if self._side is None:
            yield
            return
        self._side.wait_stream(torch.cuda.current_stream(self._plan.device))
        with torch.cuda.stream(self._side):
            yield

    def _together(self) -> None:
        """Let what follows wait for what ran beside."""
        if self._side is not None:
            torch.cuda.current_stream(self._plan.device).wait_stream(self._side)

    def _move_target(self, active: Tensor) -> None:
        """target <- target + tau (critic - target) over parameters, where ``active``; tau 1 copies exactly.

        It runs beside what follows: the next to read the target runs there too, and what changes the critics next
        waits for that. What it reads must outlive the call, so the share moved has a place of its own.
        """
        with torch.no_grad():
            torch.mul(active, self._cfg.tau, out=self._share)
            with self._beside():
                self._target.weights.lerp_(self._critic.weights, self._share)
                self._target.refresh()

    def _finish(self) -> None:
        """Record the update graphs; whatever recording computed is undone."""
        before = {name: tensor.clone() for name, tensor in self._live().items()}
        random = self.generator.get_state()
        cfg, graph = self._cfg, self._execution.graph
        self._cycles = UpdateCycles(
            self._cycle, cfg.updates_per_step, cfg.policy_frequency, graph=graph, generator=self.generator
        )
        self.generator.set_state(random)
        self._restore(before)

    # The cycle and the state.

    def _cycle(self, slot: int, phase: int) -> None:
        cfg = self._cfg
        self.noise.normal_(generator=self.generator)
        inputs = self._prepare(self._batches[slot])
        critic_rows, actor_rows = [], []
        for u in range(cfg.updates_per_step):
            critic_row, actor_row = self._learn(inputs.at(u), (phase + u) % cfg.policy_frequency == 0)
            critic_rows.append(torch.stack(critic_row))
            if actor_row:
                actor_rows.append(torch.stack(actor_row))
        self._critic_values.copy_(torch.stack(critic_rows).mean(dim=0))
        if actor_rows:
            self._actor_values.copy_(torch.stack(actor_rows).mean(dim=0))
        self._together()

    def _prepare(self, batch: TransitionBatch) -> UpdateInputs:
        """Bring a batch into the form that updates read; normalisers see it first."""
        columns = batch.columns
        obs, next_obs = _normalized(self._obs_normalizer, columns.obs, columns.next_obs)
        critic_obs, next_critic_obs = _normalized(self._critic_normalizer, columns.critic_obs, columns.next_critic_obs)
        return UpdateInputs(
            obs=obs,
            next_obs=next_obs,
            critic_obs=critic_obs,
            next_critic_obs=next_critic_obs,
            state_action=torch.cat((critic_obs, columns.action), dim=-1),
            reward=batch.reward,
            discount=batch.discount,
            noise=self.noise,
        )

    def _live(self) -> dict[str, Tensor]:
        """Return the tensors themselves that the payload holds copies of."""
        live = {f"{part}/{name}": t for part, module in self._parts.items() for name, t in module.state_dict().items()}
        live |= {name: scalar[0] for name, scalar in self._scalars.items()}
        for part, (stepper, named) in self._steppers.items():
            live[f"{part}/step"] = stepper.state.step
            for moment in ("exp_avg", "exp_avg_sq"):
                views = named(getattr(stepper.state, moment))
                live |= {f"{part}/{moment}/{name}": view for name, view in views.items()}
        return live

    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._live().items():
                tensor.copy_(tensors[name])
        for network in self._networks.values():
            network.refresh()

    def _shape(self) -> dict[str, object]:
        plan, cfg = self._plan, self._cfg
        return {
            "obs": plan.layout.obs,
            "critic_obs": self._critic_width,
            "action": plan.layout.action,
            "action_low": list(plan.action_low),
            "action_high": list(plan.action_high),
            "num_envs": plan.num_envs,
            "obs_normalization": cfg.obs_normalization,
            "atoms": cfg.atoms,
            "v_min": cfg.v_min,
            "v_max": cfg.v_max,
            **self._network_shape(),
        }

    def _check_rows(self, obs: Tensor, deterministic: bool) -> None:
        rows = len(obs) if deterministic and obs.dim() else self._plan.num_envs
        expected = (rows, self._plan.layout.obs)
        if obs.shape != expected:
            raise ConfigurationError(f"act() got observations of shape {tuple(obs.shape)}, expected {expected}")


def _normalized(normalizer: ObservationNormalizer | None, here: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    if normalizer is None:
        return here, after
    normalizer.update(torch.cat((here, after)))
    return normalizer(here), normalizer(after)


def _check_batch(batch: TransitionBatch, cfg: OffPolicyCfg, plan: LearnerPlan) -> None:
    here = (*batch.rows.shape[:2], batch.layout, batch.rows.device.type)
    expected = (cfg.updates_per_step, cfg.batch_size, plan.layout, plan.device.type)
    if here != expected:
        raise ConfigurationError(
            f"a batch of (updates, rows, layout, device) {here} does not fit the learner's {expected}: "
            "build both from one configuration"
        )
