"""History and delay lines against a naive list of frames."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.buffers import CircularBuffer, DelayBuffer, DelayCfg
from domain.rng import TorchManagerRng
from tests.support.small_env import mask

CPU = torch.device("cpu")
ROWS = 3
masks = st.tuples(*[st.booleans()] * ROWS)
operations = st.lists(st.tuples(st.sampled_from(("append", "backfill", "replace", "reset")), masks), max_size=12)


class NaiveHistory:
    """One Python list a row, newest last."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.rows: list[list[float]] = [[] for _ in range(ROWS)]

    def apply(self, operation: str, rows: tuple[bool, ...], frame: list[float]) -> None:
        for row, value in enumerate(frame):
            kept = self.rows[row]
            if operation == "append":
                self.rows[row] = [*kept, value][-self.length :] if kept else [value] * self.length
            elif rows[row] and operation == "backfill":
                self.rows[row] = [value] * self.length
            elif rows[row] and operation == "replace" and kept:
                kept[-1] = value
            elif rows[row] and operation == "reset":
                self.rows[row] = []


def apply(buffer: CircularBuffer, operation: str, rows: tuple[bool, ...], frame: Tensor) -> None:
    if operation == "append":
        buffer.append(frame)
    elif operation == "backfill":
        buffer.backfill(frame, torch.tensor(rows))
    elif operation == "replace":
        buffer.replace_newest(frame, torch.tensor(rows))
    else:
        buffer.reset(torch.tensor(rows))


@given(st.integers(1, 4), operations)
def test_a_history_is_a_list_of_frames_a_row(length: int, sequence: list[tuple[str, tuple[bool, ...]]]) -> None:
    buffer, naive = CircularBuffer(length, ROWS, 1, CPU), NaiveHistory(length)
    for number, (operation, rows) in enumerate(sequence, start=1):
        frame = [100.0 * number + row for row in range(ROWS)]
        apply(buffer, operation, rows, torch.tensor(frame).unsqueeze(1))
        naive.apply(operation, rows, frame)

    frames = buffer.frames().squeeze(2)
    for row, kept in enumerate(naive.rows):
        if kept:
            assert frames[row].tolist() == kept
            for lag in range(length):
                assert buffer.at(torch.full((ROWS,), lag))[row] == kept[-1 - lag]


def test_frames_are_oldest_first() -> None:
    buffer = CircularBuffer(3, 1, 2, CPU)
    for number in (1.0, 2.0, 3.0, 4.0):
        buffer.append(torch.tensor([[number, -number]]))

    assert buffer.frames().tolist() == [[[2.0, -2.0], [3.0, -3.0], [4.0, -4.0]]]


def test_the_first_frame_fills_all_slots() -> None:
    buffer = CircularBuffer(3, 1, 1, CPU)
    buffer.append(torch.tensor([[5.0]]))

    assert buffer.frames().flatten().tolist() == [5.0, 5.0, 5.0]


def test_a_partial_backfill_moves_no_other_row() -> None:
    buffer = CircularBuffer(2, 2, 1, CPU)
    buffer.append(torch.tensor([[1.0], [1.0]]))
    buffer.append(torch.tensor([[2.0], [2.0]]))

    buffer.backfill(torch.tensor([[9.0], [9.0]]), mask(1, 0))

    assert buffer.frames().squeeze(2).tolist() == [[9.0, 9.0], [1.0, 2.0]]


def test_a_length_below_1_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1 frame, not 0"):
        CircularBuffer(0, 1, 1, CPU)


def delay(cfg: DelayCfg, num_envs: int = ROWS, seed: int = 0) -> tuple[DelayBuffer, TorchManagerRng]:
    rng = TorchManagerRng(seed, num_envs, CPU)
    buffer = DelayBuffer(cfg, rng, 1, "actions.a.delay")
    rng.freeze()
    return buffer, rng


def push(buffer: DelayBuffer, number: float, num_envs: int = ROWS) -> list[float]:
    return [float(value) for value in buffer.advance(torch.full((num_envs, 1), number))[:, 0]]


def test_a_fixed_lag_returns_the_frame_of_so_many_steps_ago() -> None:
    buffer, _ = delay(DelayCfg(min_lag=2, max_lag=2))
    buffer.backfill(torch.zeros(ROWS, 1), torch.ones(ROWS, dtype=torch.bool))

    assert [push(buffer, number)[0] for number in (1.0, 2.0, 3.0, 4.0)] == [0.0, 0.0, 1.0, 2.0]


def test_peeking_moves_nothing() -> None:
    """FR-37."""
    buffer, _ = delay(DelayCfg(min_lag=1, max_lag=1))
    push(buffer, 1.0)
    push(buffer, 2.0)

    assert [float(buffer.peek()[0, 0]) for _ in range(3)] == [1.0, 1.0, 1.0]
    assert push(buffer, 3.0)[0] == 2.0


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.lists(masks, max_size=8))
def test_each_row_sees_the_frame_its_own_lag_ago(
    low: int, more: int, seed: int, resets: list[tuple[bool, ...]]
) -> None:
    buffer, rng = delay(DelayCfg(min_lag=low, max_lag=low + more, update_period=2, hold_probability=0.3), seed=seed)
    sent: list[list[float]] = [[] for _ in range(ROWS)]
    number = 0.0
    for rows in [(True,) * ROWS, *resets]:
        rng.advance()
        number += 1.0
        buffer.backfill(torch.full((ROWS, 1), number), torch.tensor(rows))
        for row, chosen in enumerate(rows):
            sent[row] = [number] * (low + more + 1) if chosen else sent[row]
        number += 1.0
        seen = push(buffer, number)
        lags = buffer.state_dict()["lag"]
        for row in range(ROWS):
            sent[row].append(number)
            lag = int(lags[row])
            assert low <= lag <= low + more
            assert seen[row] == sent[row][-1 - lag]


def test_lags_are_drawn_at_resets_between_their_bounds() -> None:
    buffer, rng = delay(DelayCfg(min_lag=1, max_lag=3), num_envs=600)
    rng.advance()
    buffer.backfill(torch.zeros(600, 1), torch.ones(600, dtype=torch.bool))

    counts = buffer.state_dict()["lag"].bincount(minlength=4)

    assert counts[0] == 0
    assert (counts[1:] > 150).all()


def test_a_reset_redraws_the_lags_of_its_rows_only() -> None:
    buffer, rng = delay(DelayCfg(max_lag=50))
    before = buffer.state_dict()["lag"]
    rng.advance()
    buffer.backfill(torch.zeros(ROWS, 1), mask(0, 1, 0))
    after = buffer.state_dict()["lag"]

    assert (after != before).tolist() == [False, True, False]


def test_a_hold_probability_of_1_keeps_the_lag() -> None:
    buffer, rng = delay(DelayCfg(max_lag=50, update_period=1, hold_probability=1.0))
    rng.advance()
    push(buffer, 1.0)

    assert buffer.state_dict()["lag"].tolist() == [0, 0, 0]


def test_lags_are_redrawn_every_period() -> None:
    buffer, rng = delay(DelayCfg(max_lag=1000, update_period=2))
    lags = []
    for number in range(6):
        rng.advance()
        push(buffer, float(number))
        lags.append(int(buffer.state_dict()["lag"][0]))

    assert lags[0] == 0
    assert lags[1] == lags[2] != lags[3] == lags[4] != lags[5]


def test_a_shared_lag_stays_shared_over_partial_resets_and_redraws() -> None:
    buffer, rng = delay(DelayCfg(max_lag=1000, update_period=3, hold_probability=0.5, shared=True))
    for number, rows in enumerate([(1, 1, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0), (0, 1, 1), (0, 0, 0), (0, 0, 0)]):
        rng.advance()
        push(buffer, float(number))
        buffer.backfill(torch.zeros(ROWS, 1), mask(*rows))
        assert len(set(buffer.state_dict()["lag"].tolist())) == 1
    assert buffer.state_dict()["lag"][0] > 0


@pytest.mark.parametrize(
    ("cfg", "match"),
    [
        (DelayCfg(min_lag=2, max_lag=1), "lags are 2 to 1"),
        (DelayCfg(min_lag=-1, max_lag=1), "lags are -1 to 1"),
        (DelayCfg(max_lag=1, hold_probability=1.5, update_period=1), r"hold_probability lies in \[0, 1\]"),
        (DelayCfg(max_lag=1, update_period=-1), "update_period is not negative"),
        (DelayCfg(max_lag=1, hold_probability=0.5), "no effect without an update_period"),
    ],
)
def test_impossible_settings_are_refused(cfg: DelayCfg, match: str) -> None:
    with pytest.raises(ConfigurationError, match=f"actions.a.delay.*{match}"):
        delay(cfg)
