"""The columns of a packed row."""

import pytest
import torch

from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout

ASYMMETRIC = RowLayout(obs=2, action=1, critic=3)
SHARED = RowLayout(obs=2, action=1)


def test_a_row_with_critic_observations_holds_them_first() -> None:
    columns = ASYMMETRIC.columns(torch.arange(14.0))

    assert ASYMMETRIC.width == 14
    assert columns.critic_obs.tolist() == [0.0, 1.0, 2.0]
    assert columns.action.tolist() == [3.0]
    assert columns.obs.tolist() == [4.0, 5.0]
    assert columns.next_critic_obs.tolist() == [6.0, 7.0, 8.0]
    assert columns.next_obs.tolist() == [9.0, 10.0]
    assert [float(x) for x in (columns.reward, columns.terminated, columns.truncated)] == [11.0, 12.0, 13.0]


def test_without_a_critic_group_critics_see_obs() -> None:
    columns = SHARED.columns(torch.arange(8.0))

    assert SHARED.width == 8
    assert columns.obs.tolist() == columns.critic_obs.tolist() == [0.0, 1.0]
    assert columns.action.tolist() == [2.0]
    assert columns.next_obs.tolist() == columns.next_critic_obs.tolist() == [3.0, 4.0]
    assert [float(x) for x in (columns.reward, columns.terminated, columns.truncated)] == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("layout", [ASYMMETRIC, SHARED])
def test_the_successor_part_begins_behind_all_that_the_first_step_saw(layout: RowLayout) -> None:
    columns = layout.columns(torch.arange(float(layout.width)))

    assert layout.successor == float(columns.next_critic_obs[0])


@pytest.mark.parametrize("layout", [ASYMMETRIC, SHARED])
def test_columns_are_views_with_the_leading_dimensions_of_the_rows(layout: RowLayout) -> None:
    rows = torch.zeros(4, 5, layout.width)
    columns = layout.columns(rows)

    columns.critic_obs.fill_(1.0)
    columns.next_obs.fill_(2.0)
    columns.truncated.fill_(3.0)

    assert columns.obs.shape == (4, 5, 2)
    assert columns.reward.shape == (4, 5)
    seen = layout.critic or layout.obs
    assert rows.sum() == 20 * (1.0 * seen + 2.0 * layout.obs + 3.0)


@pytest.mark.parametrize(
    ("obs", "action", "critic", "message"),
    [(0, 1, 0, "obs is 0 wide"), (1, 0, 0, "action is 0 wide"), (1, 1, -1, "critic is -1 wide, below 0")],
)
def test_an_impossible_width_is_refused(obs: int, action: int, critic: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        RowLayout(obs=obs, action=action, critic=critic)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="rows are 9 wide, their layout 8"):
        SHARED.columns(torch.zeros(3, 9))
