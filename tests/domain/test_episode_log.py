"""Means over finished episodes, by hand."""

import torch

from domain.episode_log import EpisodeLog, FinishedEpisodes


def add(log: EpisodeLog, rows: tuple[bool, bool]) -> None:
    log.add(
        FinishedEpisodes(
            mask=torch.tensor(rows),
            length=torch.tensor([10, 30]),
            reward_sums=torch.tensor([[5.0], [9.0]]),
            returns=torch.tensor([1.0, 3.0]),
            fired=torch.tensor([[True, False], [False, False]]),
            metrics=torch.tensor([[0.5], [torch.nan]]),
        )
    )


def drained(log: EpisodeLog) -> dict[str, float]:
    summary = log.drain()
    return dict(zip(summary.names, summary.values.tolist(), strict=True))


def make() -> EpisodeLog:
    return EpisodeLog(("alive",), ("fell", "time_out"), ("speed",), torch.device("cpu"))


def test_means_over_two_episodes() -> None:
    log = make()
    add(log, (True, False))
    add(log, (True, False))

    values = drained(log)

    assert values["episode/return"] == 1.0
    assert values["episode/length"] == 10.0
    assert values["reward/alive"] == 0.5  # 5 over 10 steps
    assert values["termination/fell"] == 1.0
    assert values["termination/time_out"] == 0.0
    assert values["metric/speed"] == 0.5
    assert values["episode/count"] == 2.0


def test_a_rewards_mean_is_over_steps_not_over_episodes() -> None:
    log = make()
    add(log, (True, True))

    values = drained(log)

    torch.testing.assert_close(torch.tensor(values["reward/alive"]), torch.tensor(14.0 / 40.0))
    assert values["episode/return"] == 2.0
    assert values["termination/fell"] == 0.5


def test_rows_outside_the_mask_do_not_count_even_if_they_are_nan() -> None:
    log = make()
    add(log, (True, False))

    assert drained(log)["metric/speed"] == 0.5


def test_without_an_episode_means_are_nan_and_the_count_is_0() -> None:
    log = make()
    add(log, (True, True))
    log.drain()

    values = drained(log)

    assert values.pop("episode/count") == 0.0
    assert all(value != value for value in values.values())
