"""Kinds of noise, their operations and the bias of an episode."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.noise import BiasedNoise, ConstantNoise, GaussianNoise, NoiseCfg, NoiseModel, UniformNoise
from domain.view import EnvView
from tests.support.small_env import draw_block, make_view, mask

MANY = 4000


def model(cfg: NoiseCfg, *, num_envs: int = MANY, width: int = 2) -> tuple[NoiseModel, EnvView]:
    view = make_view(num_envs)
    noise = NoiseModel(cfg, view, width, "observations.actor.terms.x.noise")
    draw_block(view)
    return noise, view


def value(num_envs: int = MANY) -> Tensor:
    return torch.tensor([[1.0, 10.0]]).repeat(num_envs, 1)


@pytest.mark.parametrize(("operation", "expected"), [("add", [3.0, 12.0]), ("scale", [2.0, 20.0]), ("abs", [2.0, 2.0])])
def test_an_operation_adds_scales_or_replaces(operation: str, expected: list[float]) -> None:
    """FR-48."""
    noise, _ = model(dataclasses.replace(ConstantNoise(value=2.0), operation=operation), num_envs=2)  # type: ignore[arg-type]

    assert noise(value(2)).tolist() == [expected, expected]


def test_uniform_noise_has_one_range_a_column() -> None:
    noise, _ = model(UniformNoise(low=(-1.0, 5.0), high=(1.0, 7.0)))
    added = noise(value()) - value()

    torch.testing.assert_close(added.mean(dim=0), torch.tensor([0.0, 6.0]), atol=0.05, rtol=0)
    assert (added[:, 0].abs() <= 1.0).all()
    assert ((added[:, 1] >= 4.99) & (added[:, 1] <= 7.01)).all()


def test_gaussian_noise_has_its_mean_and_std_and_is_cut_at_the_clamp() -> None:
    noise, _ = model(GaussianNoise(std=2.0, mean=1.0, clamp=1.5))
    added = noise(value())[:, 0] - 1.0

    torch.testing.assert_close(added.mean(), torch.tensor(1.0), atol=0.1, rtol=0)
    assert added.max() == 4.0  # 1 + 1.5 * 2
    assert added.min() == -2.0


def test_noise_inside_a_step_and_after_a_reset_come_from_separate_columns() -> None:
    noise, _ = model(UniformNoise(low=0.0, high=1.0), num_envs=2)

    assert not torch.equal(noise(value(2)), noise(value(2), after_reset=True))
    assert torch.equal(noise(value(2)), noise(value(2)))


def test_a_bias_stays_over_an_episode_and_is_redrawn_at_resets_of_its_rows() -> None:
    cfg = BiasedNoise(noise=ConstantNoise(value=0.0), bias=UniformNoise(low=-1.0, high=1.0))
    noise, view = model(cfg, num_envs=2)
    noise.reset(mask(1, 1))
    first = noise(value(2))
    view.rng.advance()
    assert torch.equal(noise(value(2)), first)

    noise.reset(mask(0, 1))
    second = noise(value(2))

    assert torch.equal(second[0], first[0])
    assert (second[1] != first[1]).all()
    assert set(noise.state_dict()) == {"bias"}


def test_a_shared_bias_is_one_number_a_row() -> None:
    cfg = BiasedNoise(noise=ConstantNoise(value=0.0), bias=UniformNoise(low=-1.0, high=1.0), shared=True)
    noise, _ = model(cfg, num_envs=3)
    noise.reset(mask(1, 1, 1))

    added = noise(torch.zeros(3, 2))

    assert torch.equal(added[:, 0], added[:, 1])
    assert len(set(added[:, 0].tolist())) == 3


def test_noise_and_bias_add_up() -> None:
    cfg = BiasedNoise(noise=ConstantNoise(value=1.0), bias=ConstantNoise(value=0.5), operation="scale")
    noise, _ = model(cfg, num_envs=1)
    noise.reset(mask(1))

    assert noise(value(1)).tolist() == [[1.5, 15.0]]


def test_parameters_can_be_tuned_while_running() -> None:
    noise, view = model(ConstantNoise(value=1.0), num_envs=1)

    view.tunable("observations.actor.terms.x.noise.value").fill_(5.0)

    assert noise(value(1)).tolist() == [[6.0, 15.0]]


@pytest.mark.parametrize(
    ("cfg", "match"),
    [
        (UniformNoise(low=1.0, high=1.0), "low must be below high"),
        (UniformNoise(low=1.0, high=-1.0), "low must be below high"),
        (UniformNoise(low=(0.0, 0.0), high=(1.0, 0.0)), "low must be below high"),
        (UniformNoise(low=(0.0, 0.0), high=1.0), "low must be below high"),
        (UniformNoise(low=math.nan, high=1.0), "is nan"),
        (UniformNoise(low=-math.inf, high=1.0), "is -inf"),
        (UniformNoise(low=(0.0, 0.0, 0.0), high=(1.0, 1.0, 1.0)), "low has 3 columns, the term has 2"),
        (GaussianNoise(std=0.0), "std is 0.0"),
        (GaussianNoise(std=(1.0, -1.0)), "std is -1.0"),
        (GaussianNoise(std=1.0, mean=math.nan), "mean is nan"),
        (GaussianNoise(std=1.0, clamp=0.0), "clamp is 0.0"),
        (GaussianNoise(std=1.0, clamp=math.nan), "clamp is nan"),
        (ConstantNoise(value=math.inf), "value is inf"),
        (ConstantNoise(value=1.0, operation="mul"), "operation is 'mul': choose one of add, scale, abs"),  # type: ignore[arg-type]
        (NoiseCfg(), "is NoiseCfg: give constant, uniform or Gaussian noise"),
        (
            BiasedNoise(noise=ConstantNoise(value=1.0, operation="scale"), bias=ConstantNoise(value=1.0)),
            "set operation on their BiasedNoise",
        ),
        (BiasedNoise(noise=ConstantNoise(value=1.0), bias=GaussianNoise(std=0.0)), "bias.std is 0.0"),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_with_its_path(cfg: NoiseCfg, match: str) -> None:
    """FR-48."""
    with pytest.raises(ConfigurationError, match=f"observations.actor.terms.x.noise.*{match}"):
        model(cfg, num_envs=2)
