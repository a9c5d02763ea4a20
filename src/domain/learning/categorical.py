"""Categorical value distributions on fixed atoms (C51: Bellemare et al. 2017, arXiv 1707.06887)."""

import torch
from torch import Tensor
from torch.nn import functional as F


class Support:
    """Atoms z_i = v_min + i D, D = (v_max - v_min) / (K - 1). All arithmetic here is float32.

    Args:
        v_min: Lowest return that can be represented.
        v_max: Highest.
        atoms: K, at least 2.
        device: Where distributions live.
    """

    def __init__(self, v_min: float, v_max: float, atoms: int, device: torch.device) -> None:
        self.v_min = v_min
        self.step = (v_max - v_min) / (atoms - 1)
        self.atoms = torch.linspace(v_min, v_max, atoms, device=device)

    def mean(self, probabilities: Tensor) -> Tensor:
        """Return the mean value, (...), of distributions (..., K)."""
        return probabilities @ self.atoms

    def value(self, logits: Tensor) -> Tensor:
        """Return the mean value, (...), of distributions given by logits, (..., K or more); the first K count."""
        return self.mean(torch.softmax(logits[..., : len(self.atoms)], dim=-1))

    def project(self, probabilities: Tensor, reward: Tensor, discount: Tensor, shift: Tensor | None = None) -> Tensor:
        """Move distributions by the Bellman map r + g (z - h) and put them back on the atoms.

        Mass between two atoms is shared by distance; what leaves the support is put on its end. So rows keep their
        sum, and their mean is exact where nothing left the support.

        Args:
            probabilities: (rows, K) or (rows, members, K), of the next state.
            reward: r, (rows,).
            discount: g, (rows,): gamma^k, or 0 where the episode ended for good.
            shift: h, (rows,): entropy share of the next value; none for no entropy.

        Returns:
            As ``probabilities``.
        """
        atoms = self.atoms if shift is None else self.atoms - shift[:, None]
        reached = torch.addcmul(reward[:, None], discount[:, None], atoms)
        top = len(self.atoms) - 1
        position = ((reached - self.v_min) / self.step).clamp(0.0, top)
        lower = position.floor()
        above = position - lower
        # A reward that is no number has no place; its distribution becomes none either, and no step is done.
        low = lower.nan_to_num(nan=0.0).long()
        high = (low + 1).clamp(max=top)
        if probabilities.dim() == 3:
            low, high, above = (t.unsqueeze(1).expand_as(probabilities) for t in (low, high, above))
        moved = probabilities * above
        projected = torch.zeros_like(probabilities).scatter_add_(-1, low, probabilities - moved)
        return projected.scatter_add_(-1, high, moved)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return -sum_i m_i log softmax(logits)_i, (...), of logits and target distributions m, (..., K)."""
    return -(target * F.log_softmax(logits, dim=-1)).sum(dim=-1)
