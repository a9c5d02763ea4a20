"""What all tests share: where Warp keeps the kernels that it has compiled, and Torch on one thread."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Set before anything imports Warp. A minute of compiling is paid once a checkout, not once a run.
os.environ.setdefault("WARP_CACHE_PATH", str(Path(__file__).parents[1] / ".warp_cache"))

# On tensors this small, a second thread that has to wait for a busy core makes an operation ten times as long.
torch.set_num_threads(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """For what has to set one thread itself."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
