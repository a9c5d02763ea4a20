"""The import contracts hold, and each of them can fail.

For every contract one copy of the tree gets one wrong import; that contract breaks and every other one is kept.
"""

import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = ".importlinter"
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# contract id, file, wrong import
PLANTED = [
    ("layers", "domain/planted.py", "import application"),
    ("layers", "domain/planted.py", "import adapters"),
    ("layers", "application/planted.py", "import adapters"),
    ("layers", "application/planted.py", "import entrypoints"),
    ("layers", "adapters/planted.py", "import entrypoints"),
    ("no-numba", "adapters/mujoco/planted.py", "import numba"),
    ("domain-torch-only", "domain/planted.py", "import pydantic"),
    ("inner-libraries", "domain/planted.py", "import numpy"),
    ("inner-libraries", "application/tasks/planted.py", "import mujoco.viewer"),
    ("inner-libraries", "application/planted.py", "import yaml"),
    ("inner-libraries", "application/motion/planted.py", "import numpy"),
    ("entrypoints-through-adapters", "entrypoints/cli/planted.py", "import matplotlib.pyplot"),
    ("command-line-outermost", "adapters/planted.py", "from dependency_injector import containers"),
    ("command-line-outermost", "application/planted.py", "import typer"),
    ("entrypoints-through-adapters", "entrypoints/cli/planted.py", "def f():\n    import mujoco"),
    ("numpy-leaves", "adapters/metrics/planted.py", "import numpy"),
    ("numpy-leaves", "entrypoints/planted.py", "from numpy.random import default_rng"),
    ("warp-leaf", "adapters/mujoco/planted.py", "import mujoco_warp"),
    ("warp-leaf", "adapters/rendering/planted.py", "from warp import to_torch"),
    ("adapters-apart", "adapters/metrics/planted.py", "import adapters.mujoco"),
]


def _config() -> ConfigParser:
    config = ConfigParser()
    config.read(ROOT / CONTRACTS)
    return config


def _contract_names() -> dict[str, str]:
    """Return contract id -> the name that the report prints."""
    config = _config()
    sections = [section for section in config.sections() if section.startswith("importlinter:contract:")]
    return {section.rpartition(":")[2]: config[section]["name"] for section in sections}


def _lint(root: Path) -> tuple[int, str, set[str]]:
    """Run the contracts on ``root``; return exit code, report and the ids of broken contracts."""
    done = subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", done.stdout, flags=re.MULTILINE))
    names = _contract_names()
    assert set(verdicts) == set(names.values()), done.stdout + done.stderr
    return done.returncode, done.stdout, {id_ for id_, name in names.items() if verdicts[name] == "BROKEN"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for file in (ROOT / "src").rglob("*.py"):
        target = tmp_path / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    shutil.copy(ROOT / CONTRACTS, tmp_path)
    return tmp_path


def test_the_tree_keeps_every_contract() -> None:
    code, report, broken = _lint(ROOT)

    assert (code, broken) == (0, set()), report


@pytest.mark.parametrize(("contract", "path", "wrong"), PLANTED)
def test_planted_import_breaks_its_contract_and_no_other(copy: Path, contract: str, path: str, wrong: str) -> None:
    planted = copy / "src" / path
    assert planted.parent.is_dir(), f"plant into a folder that exists: {path}"
    planted.write_text(f'"""Planted."""\n\n{wrong}\n')

    code, report, broken = _lint(copy)

    assert (code, broken) == (1, {contract}), report


def test_every_contract_has_a_planted_violation() -> None:
    assert {contract for contract, _, _ in PLANTED} == set(_contract_names())


def test_every_numpy_leaf_gives_its_reason() -> None:
    lines = [line.strip() for line in (ROOT / CONTRACTS).read_text().splitlines()]
    leaves = [number for number, line in enumerate(lines) if line.endswith("-> numpy")]

    assert leaves
    assert [lines[leaf] for leaf in leaves if not lines[leaf - 1].startswith("# ")] == []
