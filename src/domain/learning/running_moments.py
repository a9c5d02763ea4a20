"""Running mean and variance that merge batches exactly, and the observation normaliser built on them."""

import torch
from torch import Tensor, nn

_EPSILON = 0.01


class RunningMoments(nn.Module):
    """Mean and population variance, (*shape), of all rows seen; 0 and 1 before the first.

    Args:
        shape: Of one row.
        count: Weight of the start values, in rows.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, *shape: int, count: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.tensor(count))

    def merge(self, mean: Tensor, var: Tensor, count: Tensor | float) -> None:
        """Take in ``count`` rows with these moments, (*shape) each (Chan et al. 1979, parallel variance).

        No host read. Rows that are not finite are left out together; so are 0 rows, if any have been counted before.
        """
        total = self.count + count
        delta = mean - self.mean
        share = count / total
        new_mean = self.mean + delta * share
        new_var = (self.var * self.count + var * count + delta.square() * self.count * share) / total
        finite = torch.isfinite(new_mean.sum() + new_var.sum())
        for old, new in ((self.mean, new_mean), (self.var, new_var), (self.count, total)):
            old.copy_(torch.where(finite, new, old))


class ObservationNormalizer(RunningMoments):
    """x -> (x - mean) / (std + 0.01), per column. Source: empirical normalisation of RSL-RL 5.5.1."""

    def update(self, rows: Tensor) -> None:
        """Take in observations, (..., width)."""
        flat = rows.flatten(0, -2)
        var, mean = torch.var_mean(flat, dim=0, correction=0)
        self.merge(mean, var, flat.shape[0])

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (..., width)."""
        return (x - self.mean) / (self.var.sqrt() + _EPSILON)
