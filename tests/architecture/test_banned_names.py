"""Each ban of ruff's configuration stops the banned name, says what to do, and nothing else is reported."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "pyproject.toml"


def _bans() -> dict[str, str]:
    with SETTINGS.open("rb") as file:
        banned = tomllib.load(file)["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    return {name: entry["msg"] for name, entry in banned.items()}


def _spellings(name: str) -> list[str]:
    """Return the ways to reach a name: through its package, and from it."""
    package, _, last = name.rpartition(".")
    if not package:
        return [f"import {name}\n\nPLANTED = {name}\n"]
    top = name.split(".")[0]
    return [f"import {top}\n\nPLANTED = {name}\n", f"from {package} import {last}\n\nPLANTED = {last}\n"]


def _report(folder: Path, text: str) -> set[tuple[str, str]]:
    """Return the (code, message) pairs that ruff reports for a domain module with this text."""
    file = folder / "src" / "domain" / "planted.py"
    file.parent.mkdir(parents=True)
    file.write_text(f'"""Planted."""\n\n{text}')
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", SETTINGS, "--output-format", "json", file],
        capture_output=True,
        text=True,
        check=False,
    )
    return {(found["code"], found["message"]) for found in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name in _bans() for text in _spellings(name)], ids=lambda value: repr(value)
)
def test_banned_name_is_reported_with_its_advice_and_nothing_else(tmp_path: Path, name: str, text: str) -> None:
    advice = _bans()[name]

    assert _report(tmp_path, text) == {("TID251", f"`{name}` is banned: {advice}")}


def test_relative_import_is_reported(tmp_path: Path) -> None:
    codes = {code for code, _ in _report(tmp_path, "from . import errors\n\nPLANTED = errors\n")}

    assert codes == {"TID252"}


def test_a_plain_torch_module_is_clean(tmp_path: Path) -> None:
    assert _report(tmp_path, "import torch\n\nPLANTED = torch.float32\n") == set()


def test_multi_device_code_and_dynamic_imports_are_on_the_list() -> None:
    assert {
        "torch.distributed",
        "torch.nn.parallel",
        "torch.nn.DataParallel",
        "torch.cuda.comm",
        "importlib.import_module",
        "numba",
    } <= set(_bans())
