"""TD3 in the FastTD3 form: plain networks, categorical twin critics, noise of a scale drawn per episode.

Source: Seo et al. 2025, "FastTD3: Simple, Fast, and Capable Reinforcement Learning for Humanoid Control",
arXiv 2505.22642.
"""

import torch
from torch import Tensor, nn

from domain.learning.config import ExecutionCfg, Td3Cfg
from domain.learning.exploration import EpisodeNoise
from domain.learning.kernels import AdamWCfg, Bellman, CosineRate, Kernels, TargetRule
from domain.learning.layers import Mlp, RectifiedLayer
from domain.learning.learner import LearnerPlan
from domain.learning.off_policy import OffPolicyLearner, UpdateInputs
from domain.learning.policy import ActionBounds
from domain.learning.running_moments import ObservationNormalizer
from domain.replay.batch import TransitionBatch

_HEAD_STD = 0.01


class Td3Actor(nn.Module):
    """Observation to action; its head starts near 0.

    Args:
        cfg: Widths.
        obs: Columns of the observation.
        bounds: Of the action.
        generator: On the CPU; gives the first weights.
    """

    def __init__(self, cfg: Td3Cfg, obs: int, bounds: ActionBounds, generator: torch.Generator) -> None:
        super().__init__()
        self.actions = len(bounds.scale)
        self.normalizer = ObservationNormalizer(obs) if cfg.obs_normalization else nn.Identity()
        self.net = Mlp((obs, *cfg.actor_hidden, self.actions), RectifiedLayer, None, generator)
        nn.init.normal_(self.net.head.weight, std=_HEAD_STD, generator=generator)
        nn.init.zeros_(self.net.head.bias)
        self.bounds = bounds

    def forward(self, obs: Tensor) -> Tensor:
        """Return the deterministic action, (rows, A), env units, for raw observations, (rows, width)."""
        action: Tensor = self.bounds(self.unit(self.net(self.normalizer(obs))))
        return action

    def unit(self, head: Tensor) -> Tensor:
        """Return the action in [-1, 1], (rows, A), for the network's output."""
        return torch.tanh(head[..., : self.actions])


class Td3Learner(OffPolicyLearner[Td3Cfg]):
    """See ``Learner``. There is no target actor: the online one gives the next action of a target."""

    kind = "td3"
    draws = 1
    critic_metrics = ("critic_loss", "critic_grad_norm", "target_value")
    actor_metrics = ("actor_loss", "actor_grad_norm")

    def __init__(
        self,
        cfg: Td3Cfg,
        plan: LearnerPlan,
        batches: tuple[TransitionBatch, TransitionBatch],
        execution: ExecutionCfg,
        kernels: Kernels | None = None,
    ) -> None:
        super().__init__(cfg, plan, batches, execution, kernels)
        actions = plan.layout.action
        bounds = ActionBounds(plan.action_low, plan.action_high)
        self.actor = Td3Actor(cfg, plan.layout.obs, bounds, self._init).to(plan.device)
        widths = (self._critic_width + actions, *cfg.critic_hidden, cfg.atoms)
        self._adopt_networks(self.actor.net, Mlp(widths, RectifiedLayer, 2, self._init))
        if isinstance(self.actor.normalizer, ObservationNormalizer):
            self._adopt_normalizers(self.actor.normalizer)
        self._exploration = EpisodeNoise(plan.num_envs, cfg.sigma_min, cfg.sigma_max, self.generator)
        self._adopt("exploration", self._exploration)

        decay, clip = cfg.weight_decay, cfg.max_grad_norm
        critic = AdamWCfg(rate=CosineRate.constant(cfg.critic_lr), weight_decay=decay, max_grad_norm=clip)
        actor = AdamWCfg(rate=CosineRate.constant(cfg.actor_lr), weight_decay=decay, max_grad_norm=clip)
        self._critic_step = self._optimize("critic", critic)
        self._actor_step = self._optimize("actor", actor)
        self._rule = TargetRule.LOWER_TARGET if cfg.clipped_double_q else TargetRule.OWN
        self._critic_loss = self._compiled(self._critic_objective)
        self._actor_loss = self._compiled(self._actor_objective)
        self._finish()

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> Tensor:
        """Return actions, see ``Learner.act``; what leaves the bounds is cut, so replay holds what was applied."""
        self._check_rows(obs, deterministic)
        if deterministic:
            return self.actor(obs)  # type: ignore[no-any-return]
        unit = self.actor.unit(self.actor.net(self.actor.normalizer(obs), self._kernels))
        action: Tensor = self.actor.bounds((unit + self._exploration(unit.shape[1])).clamp(-1.0, 1.0))
        return action

    @torch.no_grad()
    def start_episodes(self, mask: Tensor) -> None:
        """Draw new noise scales for the rows under ``mask``, (num_envs,) bool."""
        self._exploration.start_episodes(mask)

    def _learn(self, inputs: UpdateInputs, actor_turn: bool) -> tuple[list[Tensor], list[Tensor]]:
        loss, target_value = self._critic_loss(inputs)
        norm, active = self._critic_step.step(loss.detach(), self._critic.gradient(loss))
        self._critic.refresh()
        self._move_target(active)
        actor_row = []
        if actor_turn:
            (actor_loss,) = self._actor_loss(inputs)
            actor_norm, _ = self._actor_step.step(actor_loss.detach(), self._actor_network.gradient(actor_loss))
            self._actor_network.refresh()
            actor_row = [actor_loss.detach(), actor_norm]
        return [loss.detach(), norm, target_value], actor_row

    def _critic_objective(self, inputs: UpdateInputs) -> tuple[Tensor, Tensor]:
        """Return the loss and the mean target value of an update."""
        cfg = self._cfg
        with torch.no_grad(), self._beside():
            smoothing = (inputs.noise[0] * cfg.policy_noise).clamp(-cfg.noise_clip, cfg.noise_clip)
            unit = (self.actor.unit(self._actor_network.fixed(inputs.next_obs)) + smoothing).clamp(-1.0, 1.0)
            after = torch.cat((inputs.next_critic_obs, self.actor.bounds.denormalize(unit)), dim=-1)
            next_logits = self._target.fixed(after)
        bellman = Bellman(inputs.reward, inputs.discount)
        logits = self._critic(inputs.state_action)
        self._together()
        loss, value = self._kernels.bellman_loss(logits, next_logits, bellman, self._support, self._rule)
        return loss.mean(), value.mean()

    def _actor_objective(self, inputs: UpdateInputs) -> tuple[Tensor]:
        action = self.actor.bounds.denormalize(self.actor.unit(self._actor_network(inputs.obs)))
        values = self._support.value(self._critic.fixed(torch.cat((inputs.critic_obs, action), dim=-1)))
        value = values.amin(dim=-1) if self._cfg.clipped_double_q else values.mean(dim=-1)
        return (-value.mean(),)

    def _network_shape(self) -> dict[str, object]:
        return {"actor_hidden": list(self._cfg.actor_hidden), "critic_hidden": list(self._cfg.critic_hidden)}
