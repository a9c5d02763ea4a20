import pytest
import torch

from adapters.rsl_rl.launch import join, read_ranks
from domain.errors import DeviceError

CUDA = torch.device("cuda")


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_process_alone_is_rank_0_of_1_and_joins_nobody() -> None:
    ranks = read_ranks(torch.device("cpu"))

    assert (ranks.rank, ranks.local_rank, ranks.world_size, ranks.device.type) == (0, 0, 1, "cpu")
    assert join(ranks) is None


def test_a_rank_takes_the_gpu_of_its_own_number(second_of_two: pytest.MonkeyPatch) -> None:
    ranks = read_ranks(CUDA)

    assert (ranks.rank, ranks.world_size, ranks.device) == (1, 2, torch.device("cuda", 1))


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_ranks_need_cuda(second_of_two: pytest.MonkeyPatch, device: str) -> None:
    with pytest.raises(DeviceError, match=f"WORLD_SIZE is 2 but the device is {device}"):
        read_ranks(torch.device(device))


def test_two_ranks_do_not_share_a_gpu(second_of_two: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="the device is cuda:0 but LOCAL_RANK is 1"):
        read_ranks(torch.device("cuda", 0))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORLD_SIZE", "two", "WORLD_SIZE is 'two', not a whole number"),
        ("RANK", "2", "RANK is 2 and LOCAL_RANK is 1, outside 0 to 1"),
        ("LOCAL_RANK", "-1", "RANK is 1 and LOCAL_RANK is -1, outside 0 to 1"),
    ],
)
def test_a_broken_launch_is_one_line(second_of_two: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    second_of_two.setenv(name, value)

    with pytest.raises(DeviceError, match=message):
        read_ranks(CUDA)
