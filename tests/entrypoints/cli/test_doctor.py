"""``unilab doctor`` on this machine, which can run this product."""

import pytest

from entrypoints.cli.main import main


def test_this_machine_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    for section in ("versions", "devices", "simulators", "rendering", "algorithms"):
        assert section in printed
    assert "ppo" in printed
