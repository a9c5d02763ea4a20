"""What the child refuses before it starts to collect."""

import pytest

from adapters.collector.child import check_fits
from domain.errors import ConfigurationError
from domain.replay.layout import RowLayout
from domain.replay.slots import SlotPlan
from tests.support.collector_envs import PLAN, counting


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SlotPlan(layout=PLAN.layout, num_envs=4), "has num_envs 3, and the slots are made for 4"),
        (SlotPlan(layout=RowLayout(obs=1, action=2), num_envs=3), "has action 3, and the slots are made for 2"),
        (SlotPlan(layout=RowLayout(obs=5, action=3), num_envs=3), "observations.actor 1, and the slots are made for 5"),
        (SlotPlan(layout=RowLayout(obs=1, action=3, critic=2), num_envs=3), "critic 0, and the slots are made for 2"),
    ],
)
def test_an_environment_that_does_not_fit_the_slots_is_refused(plan: SlotPlan, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_fits(counting(), plan)


def test_one_that_fits_is_accepted() -> None:
    check_fits(counting(), PLAN)
