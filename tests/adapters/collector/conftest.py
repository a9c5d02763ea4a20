"""Nothing stays behind: neither processes nor shared memory."""

import os
from collections.abc import Iterator

import psutil
import pytest

from tests.support.processes import living_after, shared_files


@pytest.fixture(scope="module", autouse=True)
def nothing_stays() -> Iterator[None]:
    """Compare the children of this process before and after a module's tests."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    # multiprocessing keeps one process, which watches for leftovers of its own kinds.
    new = [
        child.pid
        for child in psutil.Process().children(recursive=True)
        if child.pid not in before and "resource_tracker" not in " ".join(child.cmdline())
    ]
    assert living_after(new, 5.0) == []
    assert shared_files([os.getpid(), *new]) == []
