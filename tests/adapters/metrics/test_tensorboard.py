"""Scalars in TensorBoard's own files."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from adapters.metrics.tensorboard import TensorBoardSink


def test_a_metric_is_a_scalar_under_its_own_name(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    for iteration in (1, 2):
        sink.write(iteration, {"episode/return": 1.5 * iteration})
    sink.close()

    events = EventAccumulator(str(tmp_path))
    events.Reload()

    assert [(event.step, event.value) for event in events.Scalars("episode/return")] == [(1, 1.5), (2, 3.0)]


def test_nothing_is_made_before_the_first_row(tmp_path: Path) -> None:
    TensorBoardSink(tmp_path / "x").close()

    assert not (tmp_path / "x").exists()
