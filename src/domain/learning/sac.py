"""SAC in the FastSAC form: layer-normalised networks, categorical twin critics, tanh-Gaussian policy.

Source: Seo, Sferrazza et al. 2025, "Learning Sim-to-Real Humanoid Locomotion in 15 Minutes", arXiv 2512.01996.
"""

import math

import torch
from torch import Tensor, nn

from domain.learning.config import ExecutionCfg, SacCfg
from domain.learning.kernels import AdamWCfg, Bellman, CosineRate, Kernels, TargetRule
from domain.learning.layers import Mlp, NormalizedLayer
from domain.learning.learner import LearnerPlan
from domain.learning.off_policy import OffPolicyLearner, UpdateInputs
from domain.learning.policy import ActionBounds, TanhGaussian
from domain.learning.running_moments import ObservationNormalizer
from domain.learning.tanh_gaussian import LogDensity
from domain.replay.batch import TransitionBatch


class SacActor(nn.Module):
    """Observation to squashed Gaussian; its heads start at 0, so the first deterministic action is the middle.

    Args:
        cfg: Widths and the bounds of the log standard deviation.
        obs: Columns of the observation.
        bounds: Of the action.
        generator: On the CPU; gives the first weights.
    """

    def __init__(self, cfg: SacCfg, obs: int, bounds: ActionBounds, generator: torch.Generator) -> None:
        super().__init__()
        actions = len(bounds.scale)
        self.normalizer = ObservationNormalizer(obs) if cfg.obs_normalization else nn.Identity()
        self.net = Mlp((obs, *cfg.actor_hidden, 2 * actions), NormalizedLayer, None, generator)
        nn.init.zeros_(self.net.head.weight)
        nn.init.zeros_(self.net.head.bias)
        self.policy = TanhGaussian(bounds, (cfg.log_std_min, cfg.log_std_max), LogDensity.GUARDED)

    def forward(self, obs: Tensor) -> Tensor:
        """Return the deterministic action, (rows, A), env units, for raw observations, (rows, width)."""
        return self.policy.middle(self.net(self.normalizer(obs)))


class SacLearner(OffPolicyLearner[SacCfg]):
    """See ``Learner``. Each critic learns its own target distribution; the actor follows their mean value."""

    kind = "sac"
    critic_metrics = ("critic_loss", "critic_grad_norm", "target_value", "alpha", "alpha_loss", "entropy")
    actor_metrics = ("actor_loss", "actor_grad_norm")

    def __init__(
        self,
        cfg: SacCfg,
        plan: LearnerPlan,
        batches: tuple[TransitionBatch, TransitionBatch],
        execution: ExecutionCfg,
        kernels: Kernels | None = None,
    ) -> None:
        super().__init__(cfg, plan, batches, execution, kernels)
        actions = plan.layout.action
        bounds = ActionBounds(plan.action_low, plan.action_high)
        self.actor = SacActor(cfg, plan.layout.obs, bounds, self._init).to(plan.device)
        widths = (self._critic_width + actions, *cfg.critic_hidden, cfg.atoms)
        self._adopt_networks(self.actor.net, Mlp(widths, NormalizedLayer, 2, self._init))
        if isinstance(self.actor.normalizer, ObservationNormalizer):
            self._adopt_normalizers(self.actor.normalizer)
        self._log_alpha = self._scalar("log_alpha", math.log(cfg.alpha_init))
        self._target_entropy = -actions * cfg.target_entropy_ratio

        def adamw(rate: float, decay: float = cfg.weight_decay, clip: float = cfg.max_grad_norm) -> AdamWCfg:
            schedule, betas = CosineRate.constant(rate), (cfg.beta1, cfg.beta2)
            return AdamWCfg(rate=schedule, betas=betas, weight_decay=decay, max_grad_norm=clip)

        self._critic_step = self._optimize("critic", adamw(cfg.critic_lr))
        self._actor_step = self._optimize("actor", adamw(cfg.actor_lr))
        self._alpha_step = self._optimize("log_alpha", adamw(cfg.alpha_lr, 0.0, 0.0))
        self._critic_loss = self._compiled(self._critic_objective)
        self._actor_loss = self._compiled(self._actor_objective)
        self._act_noise = torch.zeros(plan.num_envs, actions, device=plan.device)
        self._finish()

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Return actions, see ``Learner.act``; exploration is the policy's own spread."""
        self._check_rows(obs, deterministic)
        if deterministic:
            return self.actor(obs)  # type: ignore[no-any-return]
        self._act_noise.normal_(generator=self.generator)
        head = self.actor.net(self.actor.normalizer(obs), self._kernels)
        return self.actor.policy.sample(head, self._act_noise, self._kernels)

    def _learn(self, inputs: UpdateInputs, actor_turn: bool) -> tuple[list[Tensor], list[Tensor]]:
        alpha = self._log_alpha.exp()
        loss, next_log_prob, target_value = self._critic_loss(inputs, alpha)
        norm, active = self._critic_step.step(loss.detach(), self._critic.gradient(loss))
        self._critic.refresh()
        self._move_target(active)
        # The loss's derivative by log_alpha is the loss itself.
        alpha_loss = -alpha * (next_log_prob + self._target_entropy)
        self._alpha_step.step(alpha_loss[0], alpha_loss)
        actor_row = []
        if actor_turn:
            (actor_loss,) = self._actor_loss(inputs, self._log_alpha.exp())
            actor_norm, _ = self._actor_step.step(actor_loss.detach(), self._actor_network.gradient(actor_loss))
            self._actor_network.refresh()
            actor_row = [actor_loss.detach(), actor_norm]
        return [loss.detach(), norm, target_value, alpha[0], alpha_loss[0], -next_log_prob], actor_row

    def _critic_objective(self, inputs: UpdateInputs, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the mean log-density of the next actions and the mean target value of an update."""
        with torch.no_grad(), self._beside():
            head = self._actor_network.fixed(inputs.next_obs)
            action, log_prob = self.actor.policy.draw(head, inputs.noise[0], self._kernels)
            next_logits = self._target.fixed(torch.cat((inputs.next_critic_obs, action), dim=-1))
            bellman = Bellman(inputs.reward, inputs.discount, alpha * log_prob)
        logits = self._critic(inputs.state_action)
        self._together()
        loss, value = self._kernels.bellman_loss(logits, next_logits, bellman, self._support, TargetRule.OWN)
        return loss.mean(), log_prob.mean(), value.mean()

    def _actor_objective(self, inputs: UpdateInputs, alpha: Tensor) -> tuple[Tensor]:
        action, log_prob = self.actor.policy.draw(self._actor_network(inputs.obs), inputs.noise[1], self._kernels)
        values = self._support.value(self._critic.fixed(torch.cat((inputs.critic_obs, action), dim=-1)))
        return ((alpha * log_prob - values.mean(dim=-1)).mean(),)

    def _network_shape(self) -> dict[str, object]:
        cfg = self._cfg
        return {
            "actor_hidden": list(cfg.actor_hidden),
            "critic_hidden": list(cfg.critic_hidden),
            "log_std_min": cfg.log_std_min,
            "log_std_max": cfg.log_std_max,
        }
