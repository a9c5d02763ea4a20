"""cpu_ids, thread counts and pinning; the process's own mask is put back after every test."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from adapters.mujoco import affinity
from adapters.mujoco.backend import MujocoBackend
from domain.errors import ConfigurationError
from tests.adapters.mujoco.small_scenes import SLIDER, WALKER, drive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and sets CPU affinity")
two_cpus = pytest.mark.skipif(len(affinity.available_cpus()) < 2, reason="needs two CPUs in the affinity mask")


@pytest.fixture(autouse=True)
def mask() -> Iterator[set[int]]:
    """Give the mask at the start, and put every thread back to it at the end."""
    before = os.sched_getaffinity(0)
    yield before
    affinity.restrict_process(sorted(before))


@pytest.mark.parametrize(
    ("cpu_ids", "message"),
    [
        ([], "cpu_ids is empty"),
        ([-1, 0], r"negative ids \[-1\]"),
        ([0, 0], r"names \[0\] more than once"),
        ([4095, 4094], r"\[4094, 4095\] are not available"),
    ],
)
def test_unusable_cpu_ids_are_refused_by_name(cpu_ids: list[int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MujocoBackend(SLIDER, 2, cpu_ids=cpu_ids)


def test_without_cpu_ids_there_are_as_many_threads_as_the_mask_has_cpus(mask: set[int]) -> None:
    backend = MujocoBackend(SLIDER, 64)

    assert backend._batch.nthread == len(mask)
    assert len(backend.thread_affinity()) == len(mask)


def test_the_thread_count_follows_the_mask_not_the_machine(mask: set[int]) -> None:
    os.sched_setaffinity(0, {min(mask)})

    assert affinity.thread_count(64, None) == 1
    assert MujocoBackend(SLIDER, 64)._batch.nthread == 1


@pytest.mark.parametrize(("num_envs", "cpu_ids", "count"), [(1, [4, 5, 6], 1), (2, [4, 5, 6], 2), (9, [4, 5, 6], 3)])
def test_there_are_never_more_threads_than_envs(num_envs: int, cpu_ids: list[int], count: int) -> None:
    assert affinity.thread_count(num_envs, cpu_ids) == count


@two_cpus
def test_pool_threads_have_one_cpu_each_and_the_caller_the_whole_set(mask: set[int]) -> None:
    chosen = sorted(mask)[:2]
    backend = MujocoBackend(WALKER, 8, cpu_ids=chosen)

    drive(backend, 50)

    caller, *pool = backend.thread_affinity().values()
    assert caller == set(chosen)
    assert pool == [{chosen[1]}]


@two_cpus
def test_the_whole_process_is_confined_to_cpu_ids(mask: set[int]) -> None:
    MujocoBackend(SLIDER, 2, cpu_ids=[max(mask)])

    masks = affinity.read_affinity(affinity.task_ids())
    assert set(map(frozenset, masks.values())) == {frozenset({max(mask)})}


@two_cpus
def test_pinning_does_not_change_a_bit(mask: set[int]) -> None:
    free = torch.stack(drive(MujocoBackend(WALKER, 8), 50))
    pinned = torch.stack(drive(MujocoBackend(WALKER, 8, cpu_ids=sorted(mask)[:2]), 50))

    assert torch.equal(free, pinned)


def test_a_process_under_a_mask_of_one_cpu_has_no_pool_thread() -> None:
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from adapters.mujoco import affinity\n"
        "from adapters.mujoco.backend import MujocoBackend\n"
        "from tests.adapters.mujoco.small_scenes import SLIDER\n"
        "before = affinity.task_ids()\n"
        "backend = MujocoBackend(SLIDER, 32)\n"
        "backend.step(3)\n"
        "print(len(affinity.task_ids() - before), len(backend.thread_affinity()))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])},
    )

    assert done.stdout.split() == ["0", "1"]
