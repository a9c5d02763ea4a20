"""FlashSAC: few updates of larger networks whose norms are bounded.

Source: Kim, Lee et al. 2026, "FlashSAC", arXiv 2604.04539; defaults and the order of an update as in the public
unilab 1.5.2.
"""

import math

import torch
from torch import Tensor, nn

from domain.learning.config import ExecutionCfg, FlashSacCfg
from domain.learning.exploration import RepeatedNoise
from domain.learning.kernels import AdamWCfg, Bellman, CosineRate, Kernels, TargetRule
from domain.learning.learner import LearnerPlan
from domain.learning.off_policy import OffPolicyLearner, UpdateInputs
from domain.learning.policy import ActionBounds, TanhGaussian
from domain.learning.tanh_gaussian import LogDensity
from domain.learning.unit_norm import UnitNormNetwork, UnitShape
from domain.replay.batch import TransitionBatch


class FlashSacActor(nn.Module):
    """Observation to squashed Gaussian; takes raw observations, its input batch norm normalises.

    Args:
        cfg: Widths and the bounds of the log standard deviation.
        obs: Columns of the observation.
        bounds: Of the action.
        generator: On the CPU; gives the first weights.
    """

    def __init__(self, cfg: FlashSacCfg, obs: int, bounds: ActionBounds, generator: torch.Generator) -> None:
        super().__init__()
        shape = _shape(cfg, obs, cfg.actor_width, 2 * len(bounds.scale))
        self.net = UnitNormNetwork(shape, None, generator)
        self.policy = TanhGaussian(bounds, (cfg.log_std_min, cfg.log_std_max), LogDensity.STABLE)

    def forward(self, obs: Tensor) -> Tensor:
        """Return the deterministic action, (rows, A), env units."""
        return self.policy.middle(self.net(obs))


class FlashSacLearner(OffPolicyLearner[FlashSacCfg]):
    """See ``Learner``. Rewards in the batch are scaled already (``domain.learning.reward_scaling``)."""

    kind = "flashsac"
    critic_metrics = ("critic_loss", "critic_grad_norm", "target_value")
    actor_metrics = ("actor_loss", "actor_grad_norm", "alpha", "alpha_loss", "entropy")

    def __init__(
        self,
        cfg: FlashSacCfg,
        plan: LearnerPlan,
        batches: tuple[TransitionBatch, TransitionBatch],
        execution: ExecutionCfg,
        kernels: Kernels | None = None,
    ) -> None:
        super().__init__(cfg, plan, batches, execution, kernels)
        actions = plan.layout.action
        bounds = ActionBounds(plan.action_low, plan.action_high)
        self.actor = FlashSacActor(cfg, plan.layout.obs, bounds, self._init).to(plan.device)
        shape = _shape(cfg, self._critic_width + actions, cfg.critic_width, cfg.atoms)
        critic = UnitNormNetwork(shape, 2, self._init)
        self._adopt_networks(self.actor.net, critic)
        if self._side is not None:
            self._actor_network.use_beside(self._side)
            self._critic.use_beside(self._side)
        self._project_actor = self._kernels.projection(self.actor.net.unit_rows())
        self._project_critic = self._kernels.projection(critic.unit_rows())
        # An update's loss is the mean over rows and critics.
        self._shares = torch.full((cfg.batch_size,), 0.5 / cfg.batch_size, device=plan.device)
        self._log_alpha = self._scalar("log_alpha", math.log(cfg.alpha_init))
        # Of the Gaussian before the squash, as in the source.
        self._target_entropy = 0.5 * actions * math.log(2.0 * math.pi * math.e * cfg.target_sigma**2)
        law = (cfg.noise_exponent, cfg.noise_max_repeat)
        self._exploration = RepeatedNoise(plan.num_envs, actions, *law, self.generator)
        self._adopt("exploration", self._exploration)

        rate = CosineRate(start=cfg.lr_init, end=cfg.lr_end, horizon=cfg.lr_horizon)
        adam = AdamWCfg(rate=rate, max_grad_norm=cfg.max_grad_norm)
        self._critic_step = self._optimize("critic", adam)
        self._actor_step = self._optimize("actor", adam)
        self._alpha_step = self._optimize("log_alpha", AdamWCfg(rate=rate))
        self._critic_loss = self._compiled(self._critic_objective)
        self._actor_loss = self._compiled(self._actor_objective)
        self._finish()

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Return actions, see ``Learner.act``; exploring rows hold their noise for several steps."""
        self._check_rows(obs, deterministic)
        if deterministic:
            return self.actor(obs)  # type: ignore[no-any-return]
        head = self.actor.net(obs, kernels=self._kernels)
        return self.actor.policy.sample(head, self._exploration(), self._kernels)

    @torch.no_grad()
    def start_episodes(self, mask: Tensor) -> None:
        """Let the rows under ``mask``, (num_envs,) bool, draw new noise at their next action."""
        self._exploration.start_episodes(mask)

    def _learn(self, inputs: UpdateInputs, actor_turn: bool) -> tuple[list[Tensor], list[Tensor]]:
        actor_row: list[Tensor] = []
        if actor_turn and self._cfg.policy_before_critic:
            actor_row = self._learn_actor(inputs)
        losses, target_values = self._critic_loss(inputs, self._log_alpha.exp())
        loss = 0.5 * losses.detach().mean()
        norm, active = self._critic_step.step(loss, self._critic.gradient(losses, self._shares))
        self._project_critic()
        self._critic.refresh()
        self._move_target(active)
        if actor_turn and not self._cfg.policy_before_critic:
            actor_row = self._learn_actor(inputs)
        return [loss, norm, target_values.mean()], actor_row

    def _learn_actor(self, inputs: UpdateInputs) -> list[Tensor]:
        alpha = self._log_alpha.exp()
        loss, entropy = self._actor_loss(inputs, alpha)
        norm, _ = self._actor_step.step(loss.detach(), self._actor_network.gradient(loss))
        self._project_actor()
        self._actor_network.refresh()
        # The loss's derivative by log_alpha is the loss itself.
        alpha_loss = alpha * (entropy - self._target_entropy)
        self._alpha_step.step(alpha_loss[0], alpha_loss)
        return [loss.detach(), norm, alpha[0], alpha_loss[0], entropy]

    def _critic_objective(self, inputs: UpdateInputs, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses of both critics together and the target values of an update's rows.

        Target and online critics see this and the next step as one batch, so that both share batch statistics.
        """
        size = self._cfg.batch_size
        with torch.no_grad():
            action, log_prob = self.actor.policy.draw(
                self._actor_network.fixed(inputs.next_obs), inputs.noise[0], self._kernels
            )
            both = torch.cat((inputs.state_action, torch.cat((inputs.next_critic_obs, action), dim=-1)))
            with self._beside():
                next_logits = self._target.fixed(both, True, slice(size, None))
        bellman = Bellman(inputs.reward, inputs.discount, alpha * log_prob)
        logits = self._critic(both, True, slice(size))
        self._together()
        return self._kernels.bellman_loss(logits, next_logits, bellman, self._support, TargetRule.LOWER_NEXT)

    def _actor_objective(self, inputs: UpdateInputs, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and the entropy estimate of an update; the next observations enter batch norms alone."""
        size = self._cfg.batch_size
        head = self._actor_network(torch.cat((inputs.obs, inputs.next_obs)), True, slice(size))
        action, log_prob = self.actor.policy.draw(head, inputs.noise[1], self._kernels)
        values = self._support.value(self._critic.fixed(torch.cat((inputs.critic_obs, action), dim=-1)))
        return (alpha * log_prob - values.amin(dim=-1)).mean(), -log_prob.detach().mean()

    def _network_shape(self) -> dict[str, object]:
        cfg = self._cfg
        return {
            "actor_width": cfg.actor_width,
            "critic_width": cfg.critic_width,
            "blocks": cfg.blocks,
            "expansion": cfg.expansion,
            "log_std_min": cfg.log_std_min,
            "log_std_max": cfg.log_std_max,
        }


def _shape(cfg: FlashSacCfg, inputs: int, width: int, outputs: int) -> UnitShape:
    return UnitShape(inputs=inputs, width=width, outputs=outputs, blocks=cfg.blocks, expansion=cfg.expansion)
