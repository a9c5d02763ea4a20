"""What commands share: surroundings as they really are, an environment, and how many threads Torch takes for it."""

from pathlib import Path

import pytest
import torch

from application.planning import Request, make_plan
from application.settings import TrainSettings
from domain.errors import DeviceError
from entrypoints.composition import build_env, look_around, make_container, torch_threads


def test_the_surroundings_are_this_machine_s(tmp_path: Path) -> None:
    around = look_around(make_container(tmp_path))

    assert set(around.tasks) >= {"cartpole_balance", "cartpole_swingup", "go2_flat"}
    assert set(around.simulators) == {"mujoco", "mjwarp"}
    assert around.devices[0] == "cpu"
    assert around.world_size == 1


@pytest.mark.parametrize("text", ["two", "0", "-1", ""])
def test_a_world_size_that_is_no_count_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", text)

    with pytest.raises(DeviceError, match=f"WORLD_SIZE is '{text}', not a whole number from 1"):
        look_around(make_container(tmp_path))


@pytest.mark.usefixtures("two_threads")
def test_ranks_have_random_streams_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = make_container(tmp_path)
    request = Request(task="cartpole_balance", algo="ppo", sim="mujoco", settings={"train.num_envs": 4})
    plan = make_plan(request, look_around(container))
    first = {}
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        env = build_env(container, plan, plan.config.task.env)
        first[rank] = env.reset()["actor"]
        env.close()

    assert not torch.equal(first["0"], first["1"])
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("num_envs", "cpus", "threads"),
    [(64, 16, 1), (2048, 2, 1), (2048, 16, 2), (4096, 16, 4), (65536, 64, 4), (1024, 3, 1)],
)
def test_terms_take_more_threads_for_thousands_of_rows_and_many_cpus(num_envs: int, cpus: int, threads: int) -> None:
    """FR-61."""
    assert torch_threads(TrainSettings(num_envs=num_envs, iterations=1, cpu_ids=tuple(range(cpus)))) == threads
