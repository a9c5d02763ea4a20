"""What a person sees of a run."""

import io

from rich.console import Console

from adapters.metrics.console import ConsoleSink

ROW = {"episode/return": 12.5, "episode/length": 900.0, "tail_env_steps_per_sec": 12345.0, "metric/error_yaw": 0.25}


def test_a_pipe_gets_one_plain_line_an_iteration() -> None:
    out = io.StringIO()
    sink = ConsoleSink(20, Console(file=out, force_terminal=False, width=40))

    sink.write(1, {"tail_env_steps_per_sec": 5000.0, "faults": 0.0})
    sink.write(2, {**ROW, "faults": 3.0})
    sink.close()

    assert out.getvalue().splitlines() == [
        "iteration 1/20  5,000 env steps/s",
        "iteration 2/20  return 12.50  length 900  12,345 env steps/s  faults 3",
    ]


def test_a_value_that_an_iteration_does_not_bring_is_kept() -> None:
    out = io.StringIO()
    sink = ConsoleSink(20, Console(file=out, force_terminal=False))

    sink.write(1, ROW)
    sink.write(2, {"tail_env_steps_per_sec": 1.0})

    assert out.getvalue().splitlines()[1] == "iteration 2/20  return 12.50  length 900  1 env steps/s"


def test_a_terminal_gets_a_bar_and_the_environment_s_metrics() -> None:
    out = io.StringIO()
    sink = ConsoleSink(20, Console(file=out, force_terminal=True, width=100))

    sink.write(20, ROW)
    sink.close()

    assert "20/20" in out.getvalue()
    assert "metric/error_yaw" in out.getvalue()
    assert "0.2500" in out.getvalue()
