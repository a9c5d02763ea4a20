"""The resolved configuration of a small cartpole run, as plain data."""

from pathlib import Path

from application.planning import Request, make_plan
from entrypoints.composition import look_around, make_container


def cartpole_values(*, num_envs: int, episode_length_s: float = 50.0, seed: int = 3) -> dict[str, object]:
    """Return what ``unilab train cartpole_balance`` would save for these settings, on the CPU."""
    settings = {"train.num_envs": num_envs, "train.seed": seed, "env.episode_length_s": episode_length_s}
    request = Request(task="cartpole_balance", algo="ppo", sim="mujoco", device="cpu", settings=settings)
    return make_plan(request, look_around(make_container(Path()))).config.values
