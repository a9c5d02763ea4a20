"""The transitions that one cycle of updates learns from."""

from typing import Final

import torch

from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout


class TransitionBatch:
    """Storage for ``updates`` batches; it is filled in place and never moves, so that a captured update may read it.

    ``rows`` (updates, batch_size, width) packed transitions, ``columns`` views of them, ``reward`` and ``discount``
    (updates, batch_size): a learner's target is ``reward + discount * value(next)``. ``reward`` is scaled and summed
    over the k steps of a sample, ``discount`` is gamma^k (1 - terminated); the row's own reward column is neither.

    Raises:
        ConfigurationError: No update or no transition.
    """

    def __init__(self, layout: RowLayout, updates: int, batch_size: int, device: torch.device) -> None:
        if updates < 1 or batch_size < 1:
            raise ConfigurationError(
                f"a batch of {updates} updates of {batch_size} transitions is empty: "
                "give at least 1 update a cycle and a batch_size of at least 1"
            )
        self.layout: Final = layout
        self.rows: Final = torch.zeros(updates, batch_size, layout.width, device=device)
        self.columns: Final = layout.columns(self.rows)
        self.reward: Final = torch.zeros(updates, batch_size, device=device)
        self.discount: Final = torch.zeros(updates, batch_size, device=device)
