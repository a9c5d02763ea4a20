"""The storage of one cycle's transitions."""

import pytest
import torch

from domain.errors import ConfigurationError
from domain.replay.batch import TransitionBatch
from domain.replay.layout import RowLayout

CPU = torch.device("cpu")
LAYOUT = RowLayout(obs=2, action=1)


def test_a_batch_holds_a_row_a_reward_and_a_discount_for_each_sample_of_each_update() -> None:
    batch = TransitionBatch(LAYOUT, 3, 4, CPU)

    assert batch.rows.shape == (3, 4, 8)
    assert batch.rows.dtype == batch.reward.dtype == batch.discount.dtype == torch.float32
    assert batch.reward.shape == batch.discount.shape == batch.columns.truncated.shape == (3, 4)


def test_the_columns_are_views_of_the_rows() -> None:
    batch = TransitionBatch(LAYOUT, 1, 2, CPU)

    batch.rows[0, 1] = torch.arange(8.0)

    assert batch.columns.next_obs[0].tolist() == [[0.0, 0.0], [3.0, 4.0]]


@pytest.mark.parametrize(("updates", "batch_size"), [(0, 4), (3, 0)])
def test_an_empty_batch_is_refused(updates: int, batch_size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"{updates} updates of {batch_size} transitions is empty"):
        TransitionBatch(LAYOUT, updates, batch_size, CPU)
