"""When commands are redrawn, and their metrics."""

from typing import Any

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.command import CommandManager, CommandTerm, CommandTermCfg
from domain.managers.state import set_rows
from domain.rng import Draw
from domain.view import EnvView
from tests.support.small_env import draw_block, make_view, mask

ALL_ROWS = mask(1, 1)


class Number(CommandTerm):
    """A drawn number; the metric sums it."""

    draw_width = 1

    def __init__(self, env: EnvView) -> None:
        super().__init__(env, 1)
        self.total = self.metric("number")
        self.advanced = self.keep_rows("advanced", env.num_envs, device=env.device)

    def advance(self) -> None:
        self.advanced += 1.0

    def resample(self, rows: Tensor, draw: Draw) -> None:
        set_rows(self.value, rows, draw.uniform())

    def measure(self) -> None:
        self.total += self.value[:, 0]


def manager(time: Any = (0.1, 0.1), *, seed: int = 0) -> tuple[CommandManager, EnvView]:
    view = make_view(seed=seed)
    commands = CommandManager({"n": CommandTermCfg(func=Number, resampling_time_s=time)}, view)
    draw_block(view)
    return commands, view


def run(commands: CommandManager, view: EnvView, steps: int, live: Tensor = ALL_ROWS) -> list[Tensor]:
    values = []
    for _ in range(steps):
        view.rng.advance()
        commands.compute(live)
        values.append(view.command("n").clone())
    return values


def test_a_command_is_redrawn_when_its_time_is_up() -> None:
    commands, view = manager()
    commands.reset(ALL_ROWS)
    values = run(commands, view, 10)

    changes = [i + 1 for i in range(1, 10) if not torch.equal(values[i], values[i - 1])]
    assert changes == [5, 10]  # 0.1 s are 5 steps of 0.02 s


def test_each_command_has_a_timer_of_its_own() -> None:
    view = make_view()
    cfgs = {name: CommandTermCfg(func=Number, resampling_time_s=(s, s)) for name, s in (("slow", 0.2), ("fast", 0.1))}
    commands = CommandManager(cfgs, view)
    draw_block(view)
    commands.reset(ALL_ROWS)
    changes: dict[str, list[int]] = {"slow": [], "fast": []}

    for step in range(1, 11):
        before = {name: view.command(name).clone() for name in changes}
        view.rng.advance()
        commands.compute(ALL_ROWS)
        for name, steps in changes.items():
            steps += [] if torch.equal(view.command(name), before[name]) else [step]

    assert changes == {"slow": [10], "fast": [5, 10]}


def test_a_row_that_is_done_is_not_redrawn() -> None:
    commands, view = manager((0.0, 0.0))
    commands.reset(ALL_ROWS)
    before = view.command("n").clone()
    after = run(commands, view, 1, mask(0, 1))[0]

    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_reset_draws_anew_for_its_rows_and_restarts_their_timer() -> None:
    commands, view = manager()
    commands.reset(ALL_ROWS)
    run(commands, view, 3)
    before = view.command("n").clone()
    commands.reset(mask(1, 0))
    assert (view.command("n") != before).tolist() == [[True], [False]]

    values = run(commands, view, 2)

    assert values[1][0] == values[0][0]  # 0.06 s left
    assert values[1][1] != before[1]


def test_metrics_are_means_over_the_episode_measured_before_redrawing() -> None:
    commands, view = manager((0.04, 0.04))
    commands.reset(ALL_ROWS)
    first = float(view.command("n")[0, 0])
    values = run(commands, view, 3)

    # Steps 1 and 2 were flown under the first command, step 3 under the one drawn after step 2.
    expected = (first + first + float(values[1][0, 0])) / 3
    torch.testing.assert_close(commands.metrics()["n/number"][0], torch.tensor(expected))


def test_a_reset_zeroes_the_metrics_of_its_rows() -> None:
    commands, view = manager()
    commands.reset(ALL_ROWS)
    run(commands, view, 3)
    commands.reset(mask(1, 0))

    assert commands.metrics()["n/number"][0] == 0.0
    assert commands.metrics()["n/number"][1] > 0.0


def test_a_rows_command_does_not_depend_on_which_others_reset() -> None:
    """FR-08."""
    drawn = []
    for rows in (mask(0, 1), mask(1, 1)):
        commands, view = manager()
        commands.reset(rows)
        drawn.append(view.command("n").clone())

    assert drawn[0][1] == drawn[1][1]
    assert drawn[0][0] == 0.0


def test_a_command_without_a_time_is_drawn_at_resets_alone() -> None:
    commands, view = manager(None)
    commands.reset(ALL_ROWS)
    first = view.command("n").clone()

    values = run(commands, view, 50)
    commands.reset(mask(1, 0))

    assert all(torch.equal(value, first) for value in values)
    assert (view.command("n") != first)[:, 0].tolist() == [True, False]
    assert commands.state_dict()["time_left"].shape == (2, 0)


def test_the_value_keeps_its_storage() -> None:
    commands, view = manager()
    before = view.command("n").data_ptr()
    commands.reset(ALL_ROWS)

    assert view.command("n").data_ptr() == before


def test_the_resampling_time_can_be_tuned() -> None:
    commands, view = manager((20, 20))
    span = view.tunable("commands.n.resampling_time_s")
    assert span.dtype == torch.float32
    span.fill_(0.02)
    commands.reset(ALL_ROWS)

    values = run(commands, view, 2)

    assert not torch.equal(values[0], values[1])


def test_timers_steps_and_metrics_are_state() -> None:
    commands, _ = manager()

    assert set(commands.state_dict()) == {"time_left", "steps", "n/value", "n/advanced", "n/metric/number"}


@pytest.mark.parametrize(
    ("time", "match"),
    [
        ((2.0, 1.0), "low is above high"),
        ((float("nan"), 1.0), "two finite numbers"),
        ((-1.0, 1.0), "is -1.0, outside"),
        (3.0, "two finite numbers"),
    ],
)
def test_impossible_resampling_times_are_refused(time: Any, match: str) -> None:
    """FR-44."""
    with pytest.raises(ConfigurationError, match=f"commands.n.resampling_time_s.*{match}"):
        manager(time)


def test_a_term_that_is_no_command_is_refused() -> None:
    def function(env: EnvView) -> Tensor:
        return torch.zeros(2)

    with pytest.raises(ConfigurationError, match="commands.bad: .* is not a command term"):
        CommandManager({"bad": CommandTermCfg(func=function, resampling_time_s=(1.0, 1.0))}, make_view())
