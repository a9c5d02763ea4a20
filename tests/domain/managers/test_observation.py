"""Groups of observations: the way of a term, and what reads share."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from domain.errors import ConfigurationError
from domain.managers.buffers import DelayCfg
from domain.managers.noise import BiasedNoise, ConstantNoise, UniformNoise
from domain.managers.observation import ObservationGroupCfg, ObservationManager, ObservationTermCfg
from domain.managers.state import Stateful, set_rows
from domain.view import EnvView
from tests.support.small_env import draw_block, global_step, make_view, mask

ALL_ROWS = mask(1, 1)
NO_ROWS = mask(0, 0)
STEP = ObservationTermCfg(func=global_step)


def two_columns(env: EnvView) -> Tensor:
    return torch.stack((env.step_count, -env.step_count)).float().expand(env.num_envs, 2)


def manager(*terms: ObservationTermCfg, **groups: ObservationGroupCfg) -> tuple[ObservationManager, EnvView]:
    view = make_view()
    if terms:
        groups["actor"] = ObservationGroupCfg(terms={f"t{i}": term for i, term in enumerate(terms)})
    observations = ObservationManager(groups, view)
    draw_block(view)
    return observations, view


def advance(observations: ObservationManager, view: EnvView, steps: int = 1) -> Tensor:
    for _ in range(steps):
        view.step_count += 1
        result = observations.compute()["actor"]
    return result


def test_terms_are_concatenated_in_declared_order() -> None:
    observations, view = manager(replace(STEP, scale=10.0), ObservationTermCfg(func=two_columns))

    assert advance(observations, view, 3).tolist() == [[30.0, 3.0, -3.0]] * 2
    assert observations.widths == {"actor": 3}
    assert observations.layout == {"actor": {"t0": 1, "t1": 2}}


def test_noise_comes_before_clip_and_clip_before_scale() -> None:
    observations, view = manager(replace(STEP, noise=ConstantNoise(value=5.0), clip=(0.0, 4.0), scale=10.0))

    assert advance(observations, view)[0, 0] == 40.0  # (1 + 5) clipped to 4, times 10


def test_delay_comes_before_history_and_the_oldest_frame_first() -> None:
    observations, view = manager(replace(STEP, delay=DelayCfg(min_lag=1, max_lag=1), history_length=3))

    assert advance(observations, view, 5)[0].tolist() == [2.0, 3.0, 4.0]


def test_histories_are_flattened_term_by_term() -> None:
    observations, view = manager(ObservationTermCfg(func=two_columns, history_length=2), STEP)

    assert advance(observations, view, 2)[0].tolist() == [1.0, -1.0, 2.0, -2.0, 2.0]


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_reading_observations_again_advances_nothing(reads: int) -> None:
    """FR-37: a constant lag of 2 shows the counter less 2, however often it is read."""
    observations, view = manager(replace(STEP, delay=DelayCfg(min_lag=2, max_lag=2)))
    observations.renew(ALL_ROWS, ALL_ROWS)
    for number in range(1, 8):
        observations.publish({"actor": advance(observations, view)})
        for _ in range(reads):
            assert observations.current["actor"][0, 0] == max(number - 2, 0)


def test_two_groups_with_a_term_of_one_name_have_their_own_noise_and_history() -> None:
    """FR-39."""
    noisy = replace(STEP, noise=ConstantNoise(value=0.5), history_length=2)
    observations, view = manager(
        actor=ObservationGroupCfg(terms={"x": noisy}),
        critic=ObservationGroupCfg(terms={"x": noisy}, enable_corruption=False),
    )
    observations.renew(ALL_ROWS, ALL_ROWS)
    view.step_count += 1

    values = observations.compute()

    assert values["actor"][0].tolist() == [0.5, 1.5]
    assert values["critic"][0].tolist() == [0.0, 1.0]


def test_a_reset_reaches_the_histories_of_both_groups() -> None:
    """FR-39."""
    term = replace(STEP, history_length=2)
    observations, view = manager(
        actor=ObservationGroupCfg(terms={"x": term}), critic=ObservationGroupCfg(terms={"x": term})
    )
    advance(observations, view, 2)
    view.step_count.fill_(9)

    renewed = observations.renew(mask(1, 0), mask(1, 0))

    for group in ("actor", "critic"):
        assert renewed[group][0].tolist() == [9.0, 9.0]


def test_a_function_that_groups_share_is_evaluated_once() -> None:
    calls: list[int] = []

    def counted(env: EnvView) -> Tensor:
        calls.append(1)
        return torch.zeros(env.num_envs, 1)

    term = ObservationTermCfg(func=counted)
    observations, _ = manager(
        actor=ObservationGroupCfg(terms={"x": term}), critic=ObservationGroupCfg(terms={"y": term})
    )
    calls.clear()

    observations.compute()

    assert len(calls) == 1


def test_a_written_row_has_its_newest_frame_corrected_and_no_other_row_moves() -> None:
    observations, view = manager(replace(STEP, history_length=3))
    advance(observations, view, 3)
    view.step_count.fill_(50)

    renewed = observations.renew(mask(1, 0), NO_ROWS)["actor"]

    assert renewed[0].tolist() == [1.0, 2.0, 50.0]
    assert observations.renew(NO_ROWS, NO_ROWS)["actor"].tolist() == [[1.0, 2.0, 50.0], [1.0, 2.0, 3.0]]


def test_a_reset_row_starts_a_new_history_and_a_new_bias() -> None:
    noise = BiasedNoise(noise=ConstantNoise(value=0.0), bias=UniformNoise(low=0.1, high=0.9))
    observations, view = manager(replace(STEP, noise=noise, history_length=2))
    before = observations.renew(ALL_ROWS, ALL_ROWS)["actor"].clone()
    view.rng.advance()
    after = observations.renew(mask(0, 1), mask(0, 1))["actor"]

    assert torch.equal(after[0], before[0])
    assert after[1, 0] == after[1, 1] != before[1, 0]


def test_a_class_term_is_reset_before_it_is_read_again() -> None:
    class Count(Stateful):
        def __init__(self, env: EnvView) -> None:
            super().__init__()
            self.resets = self.keep_rows("resets", env.num_envs, 1, device=env.device)

        def __call__(self) -> Tensor:
            return self.resets.clone()

        def reset(self, rows: Tensor) -> None:
            set_rows(self.resets, rows, self.resets + 1.0)

    observations, _ = manager(ObservationTermCfg(func=Count))

    assert observations.renew(mask(1, 0), mask(1, 0))["actor"].tolist() == [[1.0], [0.0]]
    assert "actor/t0/term/resets" in observations.state_dict()


def test_computed_observations_are_fresh_tensors() -> None:
    observations, view = manager(STEP)
    first = advance(observations, view)
    observations.publish({"actor": first})
    first.fill_(99.0)

    assert observations.current["actor"][0, 0] == 1.0
    assert advance(observations, view)[0, 0] == 2.0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"clip": (1.0, -1.0)}, "clip is .*low is above high"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"scale": (1.0, 2.0)}, "scale has 2 columns, the term has 1"),
        ({"history_length": 0}, "history_length is 0"),
        ({"delay": DelayCfg(min_lag=3, max_lag=1)}, "delay lags are 3 to 1"),
        ({"noise": UniformNoise(low=1.0, high=0.0)}, "noise is uniform from 1.0 to 0.0"),
    ],
)
@pytest.mark.parametrize("corrupted", [True, False])
def test_impossible_settings_are_refused_with_their_path(
    settings: Mapping[str, object], match: str, corrupted: bool
) -> None:
    term = replace(STEP, **settings)  # type: ignore[arg-type]

    with pytest.raises(ConfigurationError, match=f"observations.actor.terms.x.{match}"):
        manager(actor=ObservationGroupCfg(terms={"x": term}, enable_corruption=corrupted))


def test_a_flat_term_is_refused_by_name() -> None:
    """FR-41."""

    def flat(env: EnvView) -> Tensor:
        return torch.zeros(env.num_envs)

    with pytest.raises(ConfigurationError, match=r"actor.terms.x returned .*\(2,\).*expected .*\(2, any\)"):
        manager(actor=ObservationGroupCfg(terms={"x": ObservationTermCfg(func=flat)}))


def test_a_group_without_terms_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="observations.actor has no terms"):
        manager(actor=ObservationGroupCfg())
