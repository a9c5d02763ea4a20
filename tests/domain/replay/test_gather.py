"""Samples from a ring against plain lists of what each environment wrote."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from domain.errors import ConfigurationError
from domain.replay.batch import TransitionBatch
from domain.replay.gather import BatchGather, draw
from domain.replay.layout import RowLayout
from tests.support.host_sync import ForbidHostSync

CPU = torch.device("cpu")
SHARED, ASYMMETRIC = RowLayout(obs=1, action=1), RowLayout(obs=1, action=1, critic=2)


class Step(NamedTuple):
    reward: float
    terminated: bool = False
    truncated: bool = False


class Ring:
    """Row s has observation s, action -s, successor s + 0.5, and critic observations a quarter above these."""

    def __init__(self, capacity: int, layout: RowLayout = SHARED) -> None:
        self.layout = layout
        self.rows = torch.full((capacity, layout.width), torch.nan)  # what was never written shows
        self.committed = torch.zeros((), dtype=torch.int64)
        self.written: list[Step] = []
        self.number_at: dict[int, int] = {}

    def write(self, chunk: Sequence[Step]) -> "Ring":
        for step in chunk:
            number, place = len(self.written), len(self.written) % len(self.rows)
            columns = self.layout.columns(self.rows[place])
            columns.critic_obs.fill_(number + 0.25)
            columns.obs.fill_(number)
            columns.action.fill_(-number)
            columns.next_critic_obs.fill_(number + 0.75)
            columns.next_obs.fill_(number + 0.5)
            self.rows[place, -3:] = torch.tensor(step)
            self.written.append(step)
            self.number_at[place] = number
        self.committed.fill_(len(self.written))
        return self

    def sample(self, n_step: int, *, stride: int = 1, gamma: float = 0.5, scale: Tensor | None = None) -> "Samples":
        """Gather every committed row once, in the order of physical rows."""
        batch = TransitionBatch(self.layout, 1, len(self.number_at), CPU)
        gather = BatchGather(ring=self.rows, layout=self.layout, stride=stride, gamma=gamma, n_step=n_step)
        gather.fill(torch.arange(len(self.number_at)), self.committed, batch, scale)
        return Samples(batch)

    def slow_sample(self, place: int, n_step: int, stride: int, gamma: float) -> tuple[int, int, float, float]:
        """Return the first and the last row, the reward and the discount of the sample that starts at ``place``."""
        first = self.number_at[place]
        reward = 0.0
        for k, step in enumerate(self.written[first::stride][:n_step]):
            reward += gamma**k * step.reward
            last, discount = first + k * stride, gamma ** (k + 1) * (not step.terminated)
            if step.terminated or step.truncated:
                break
        return first, last, reward, discount


class Samples:
    def __init__(self, batch: TransitionBatch) -> None:
        self.columns = batch.columns
        self.obs: list[float] = batch.columns.obs.flatten().tolist()
        self.next_obs: list[float] = batch.columns.next_obs.flatten().tolist()
        self.reward: list[float] = batch.reward.flatten().tolist()
        self.discount: list[float] = batch.discount.flatten().tolist()


steps = st.builds(Step, st.integers(-9, 9).map(float), st.booleans(), st.booleans())
chunks = st.lists(st.lists(steps, min_size=1, max_size=15), min_size=1, max_size=5)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), chunks, st.integers(1, 5), st.sampled_from((SHARED, ASYMMETRIC)))
def test_after_each_chunk_every_sample_is_that_of_the_plain_lists(
    capacity: int, stride: int, written: list[list[Step]], n_step: int, layout: RowLayout
) -> None:
    ring = Ring(capacity, layout)
    for chunk in written:
        got = ring.write(chunk).sample(n_step, stride=stride, gamma=0.9)

        for place in range(len(got.obs)):
            first, last, reward, discount = ring.slow_sample(place, n_step, stride, 0.9)
            assert got.reward[place] == pytest.approx(reward, abs=1e-4)
            assert got.discount[place] == pytest.approx(discount, abs=1e-6)
            row, head = got.columns, layout.critic > 0
            assert row.obs[0, place].tolist() == [first]
            assert row.critic_obs[0, place].tolist() == ([first + 0.25] * 2 if head else [first])
            assert row.action[0, place].tolist() == [-first]
            assert row.next_obs[0, place].tolist() == [last + 0.5]
            assert row.next_critic_obs[0, place].tolist() == ([last + 0.75] * 2 if head else [last + 0.5])
            assert row.terminated[0, place] == ring.written[last].terminated
            assert row.truncated[0, place] == ring.written[last].truncated


def test_three_rewards_without_an_end() -> None:
    got = Ring(4).write([Step(1.0), Step(2.0), Step(3.0)]).sample(3, gamma=0.9)

    assert got.reward[0] == pytest.approx(5.23)
    assert got.discount[0] == pytest.approx(0.729)
    assert got.next_obs[0] == 2.5


def test_an_end_at_the_second_reward() -> None:
    got = Ring(4).write([Step(1.0), Step(2.0, truncated=True), Step(3.0)]).sample(3, gamma=0.9)

    assert got.reward[0] == pytest.approx(2.8)
    assert got.discount[0] == pytest.approx(0.81)
    assert got.next_obs[0] == 1.5


@pytest.mark.parametrize("bootstraps", [0.0, 1.0])
def test_no_sample_of_a_full_ring_runs_over_the_write_position_or_over_an_end(bootstraps: float) -> None:
    end = Step(4.0, terminated=not bootstraps, truncated=bool(bootstraps))
    ring = Ring(8).write([end if number == 4 else Step(float(number)) for number in range(10)])

    got = ring.sample(3)

    assert got.obs == [8.0, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    # 8+9/2, 9, 2+3/2+4/4, 3+4/2, 4, 5+6/2+7/4, 6+7/2+8/4, 7+8/2+9/4
    assert got.reward == [12.5, 9.0, 4.5, 5.0, 4.0, 9.75, 11.5, 13.25]
    ended = [bootstraps / 8, bootstraps / 4, bootstraps / 2]
    assert got.discount == [0.25, 0.5, *ended, 0.125, 0.125, 0.125]
    assert got.next_obs == [9.5, 9.5, 4.5, 4.5, 4.5, 7.5, 8.5, 9.5]


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(
    ("capacity", "sizes", "numbers"),
    [
        (4, [1, 1, 1, 1, 1], [4.0, 1.0, 2.0, 3.0]),
        (1, [1, 1], [1.0]),
        (4, [3, 3], [4.0, 5.0, 2.0, 3.0]),
        (2, [5], [4.0, 3.0]),
    ],
)
def test_a_ring_that_has_just_become_full_is_sampled(
    n_step: int, capacity: int, sizes: list[int], numbers: list[float]
) -> None:
    ring = Ring(capacity)
    for size in sizes:
        ring.write([Step(1.0)] * size)

    got = ring.sample(n_step)

    assert got.obs == numbers
    newest = numbers.index(max(numbers))
    assert (got.reward[newest], got.discount[newest]) == (1.0, 0.5)


def test_rows_of_two_environments_do_not_mix() -> None:
    ring = Ring(6).write([Step(1.0), Step(10.0), Step(2.0), Step(20.0), Step(3.0)])

    got = ring.sample(2, stride=2)

    assert got.reward == [2.0, 20.0, 3.5, 20.0, 3.0]


@pytest.mark.parametrize("n_step", [1, 3])
def test_only_a_terminated_row_does_not_bootstrap(n_step: int) -> None:
    """FR-19."""
    ends = [(False, False), (False, True), (True, False), (True, True)]

    got = Ring(4).write([Step(0.0, *end) for end in ends]).sample(n_step, stride=4, gamma=1.0)

    assert got.discount == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_successor_of_a_truncated_row_is_the_stored_observation_before_the_reset(n_step: int) -> None:
    """FR-19."""
    ring = Ring(4).write([Step(1.0, truncated=True), Step(2.0)])
    SHARED.columns(ring.rows[1]).obs.fill_(-77.0)

    got = ring.sample(n_step)

    assert got.next_obs[0] == 0.5


@pytest.mark.parametrize(("n_step", "reward", "raw"), [(1, 2.0, 1.0), (2, 5.0, 3.0)])
def test_the_summed_reward_is_divided_and_rows_keep_raw_ones(n_step: int, reward: float, raw: float) -> None:
    got = Ring(2).write([Step(1.0), Step(3.0)]).sample(n_step, scale=torch.tensor(0.5))

    assert got.reward[0] == reward
    assert got.columns.reward[0, 0] == raw


@pytest.mark.parametrize("n_step", [1, 3])
def test_drawing_and_filling_neither_wait_for_the_device_nor_move_storage(n_step: int) -> None:
    ring = Ring(8).write([Step(1.0)] * 9)
    batch = TransitionBatch(SHARED, 2, 3, CPU)
    gather = BatchGather(ring=ring.rows, layout=SHARED, stride=2, gamma=0.9, n_step=n_step)
    index, size = torch.zeros(6, dtype=torch.int64), ring.committed.clamp(max=8)
    tensors = (batch.rows, batch.reward, batch.discount, batch.columns.obs, index)
    addresses = [tensor.data_ptr() for tensor in tensors]

    with ForbidHostSync():
        draw(torch.Generator().manual_seed(0), size, index)
        gather.fill(index, ring.committed, batch, torch.tensor(2.0))

    assert [tensor.data_ptr() for tensor in tensors] == addresses
    assert (batch.reward > 0.0).all()


def test_samples_keep_the_order_of_their_rows_over_all_updates() -> None:
    ring = Ring(6).write([Step(float(number)) for number in range(6)])
    batch = TransitionBatch(SHARED, 2, 3, CPU)
    gather = BatchGather(ring=ring.rows, layout=SHARED, stride=6, gamma=0.9, n_step=2)

    gather.fill(torch.tensor([5, 4, 3, 2, 1, 0]), ring.committed, batch)

    assert batch.reward.tolist() == [[5.0, 4.0, 3.0], [2.0, 1.0, 0.0]]
    assert batch.columns.obs.flatten().tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def drawn(seed: int, size: int, count: int) -> Tensor:
    index = torch.full((count,), -1)
    draw(torch.Generator().manual_seed(seed), torch.tensor(size), index)
    return index


def chi_square(values: Tensor, cells: int) -> float:
    expected = len(values) / cells
    return float((values.bincount(minlength=cells) - expected).square().sum() / expected)


def test_draws_are_uniform_over_the_committed_rows() -> None:
    index = drawn(0, 50, 100_000)

    assert index.min() == 0
    assert index.max() == 49
    assert chi_square(index, 50) < 85.35  # 49 degrees of freedom, p = 0.001


def test_draws_stay_uniform_where_floats_of_24_bits_are_too_coarse() -> None:
    # 2^24 floats over 3 * 2^22 rows would hit every third row twice as often as the others.
    index = drawn(1, 3 * 2**22, 100_000)

    assert index.max() > 3 * 2**22 - 1000
    assert chi_square(index % 3, 3) < 13.82  # 2 degrees of freedom, p = 0.001


def test_draws_of_the_largest_ring_reach_every_residue() -> None:
    # The high 30 bits alone would give multiples of 8.
    assert chi_square(drawn(5, 2**33, 100_000) % 8, 8) < 24.33  # 7 degrees of freedom, p = 0.001


@pytest.mark.parametrize("size", [1, 2, 2**33])
def test_draws_never_leave_the_committed_rows(size: int) -> None:
    index = drawn(2, size, 1000)

    assert index.min() >= 0
    assert size // 2 <= index.max() < size


def test_equal_seeds_draw_equal_rows() -> None:
    assert torch.equal(drawn(3, 1000, 64), drawn(3, 1000, 64))
    assert not torch.equal(drawn(3, 1000, 64), drawn(4, 1000, 64))


@pytest.mark.parametrize(
    ("ring", "message"),
    [
        (torch.zeros(4, 5), r"make it torch.float32 \(capacity, 6\)"),
        (torch.zeros(0, 6), "a capacity of at least 1"),
        (torch.zeros(4, 6, dtype=torch.float64), "the replay ring is torch.float64"),
        (torch.zeros(6), r"the replay ring is torch.float32 \(6,\)"),
    ],
)
def test_a_ring_of_another_shape_or_type_is_refused(ring: Tensor, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BatchGather(ring=ring, layout=SHARED, stride=1, gamma=0.9, n_step=1)


@pytest.mark.parametrize(
    ("stride", "gamma", "n_step", "message"),
    [(0, 0.9, 1, "0 environments"), (1, 0.9, 0, "n_step is 0"), (1, 1.5, 1, "gamma is 1.5")],
)
def test_a_number_outside_its_range_is_refused(stride: int, gamma: float, n_step: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BatchGather(ring=torch.zeros(4, 6), layout=SHARED, stride=stride, gamma=gamma, n_step=n_step)


@pytest.mark.parametrize(("rows", "layout"), [(3, SHARED), (4, ASYMMETRIC)])
def test_a_batch_that_does_not_fit_is_refused_because_torch_would_move_its_storage(
    rows: int, layout: RowLayout
) -> None:
    gather = BatchGather(ring=torch.zeros(4, 6), layout=SHARED, stride=1, gamma=0.9, n_step=1)

    with pytest.raises(ConfigurationError, match="do not fill a batch of 4 rows"):
        gather.fill(torch.zeros(rows, dtype=torch.int64), torch.tensor(4), TransitionBatch(layout, 2, 2, CPU))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_captured_draw_and_gather_gives_the_samples_of_an_eager_one(n_step: int) -> None:
    device = torch.device("cuda")
    ring = Ring(100).write([Step(float(number % 7), number % 11 == 0, number % 5 == 0) for number in range(250)])
    rows, committed = ring.rows.to(device), ring.committed.to(device)
    gather = BatchGather(ring=rows, layout=SHARED, stride=4, gamma=0.9, n_step=n_step)
    index, size = torch.zeros(64, dtype=torch.int64, device=device), torch.tensor(100, device=device)
    generator, scale = torch.Generator(device), torch.tensor(2.0, device=device)
    captured, eager = (TransitionBatch(SHARED, 2, 32, device) for _ in range(2))

    def cycle(batch: TransitionBatch) -> None:
        draw(generator, size, index)
        gather.fill(index, committed, batch, scale)

    warm_up = torch.cuda.Stream()
    with torch.cuda.stream(warm_up):
        cycle(captured)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        cycle(captured)
    for newest in (250, 237):
        committed.fill_(newest)
        generator.manual_seed(newest)
        graph.replay()
        generator.manual_seed(newest)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            cycle(eager)
        finally:
            torch.cuda.set_sync_debug_mode("default")

        assert torch.equal(captured.rows, eager.rows)
        assert torch.equal(captured.reward, eager.reward)
        assert torch.equal(captured.discount, eager.discount)
