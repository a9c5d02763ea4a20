"""The builder that crosses to the collector's process."""

import multiprocessing.reduction
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from application.planning import Request, make_plan
from domain.errors import ConfigurationError
from entrypoints.collector_main import build_env_of_values, env_builder
from entrypoints.composition import build_env, look_around, make_container
from tests.support.cartpole_values import cartpole_values

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("two_threads")
def test_it_builds_the_very_environment_of_the_plan(tmp_path: Path) -> None:
    container = make_container(tmp_path)
    settings = {"train.num_envs": 4, "train.seed": 9, "env.decimation": 2}
    request = Request(task="cartpole_balance", algo="ppo", sim="mujoco", device="cpu", settings=settings)
    plan = make_plan(request, look_around(container))
    first, second = build_env(container, plan, plan.config.task.env), env_builder(plan.config.values, None)()
    try:
        action = torch.full((4, 1), 0.3)
        assert torch.equal(first.reset()["actor"], second.reset()["actor"])
        assert torch.equal(first.step(action).observations["actor"], second.step(action).observations["actor"])
        assert second.cfg.decimation == 2
        assert torch.get_num_threads() == 1
    finally:
        first.close()
        second.close()


def test_it_is_small_enough_to_cross_at_once() -> None:
    builder = env_builder(cartpole_values(num_envs=4), Path("runs/logs"))

    # What waits for a process to start has to fit into a pipe.
    assert len(multiprocessing.reduction.ForkingPickler.dumps(builder)) < 16_384


def test_the_engines_messages_go_where_the_builder_was_told(tmp_path: Path) -> None:
    env_builder(cartpole_values(num_envs=1), tmp_path / "logs")().close()

    assert (tmp_path / "logs").is_dir()


def test_values_that_do_not_fit_the_declaration_are_refused() -> None:
    values = {**cartpole_values(num_envs=4), "task": "cartpole_balanced"}

    with pytest.raises(ConfigurationError, match="did you mean 'cartpole_balance'"):
        build_env_of_values(values, None)


def test_building_looks_for_no_device_and_loads_no_learner() -> None:
    program = (
        "import sys, torch\n"
        "def refuse(*args): raise SystemExit('a device was looked for')\n"
        "torch.cuda.is_available = torch.cuda.device_count = torch.cuda.init = refuse\n"
        "from entrypoints.collector_main import env_builder\n"
        "from tests.support.cartpole_values import cartpole_values\n"
        f"values = {cartpole_values(num_envs=2)!r}\n"
        "env = env_builder(values, None)()\n"
        "env.reset(); env.step(torch.zeros(2, 1)); env.close()\n"
        "heavy = ('rsl_rl', 'warp', 'triton', 'domain.learning.network', 'domain.learning.sac')\n"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or None)\n"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr.strip()) == (0, "")
