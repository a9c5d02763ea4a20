"""``python -m entrypoints.cli`` is ``unilab``, e.g. for torchrun."""

from entrypoints.cli.main import run

run()
