"""What the repository carries works on any machine: no absolute path of one, no host to install from."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not find itself.
FOLDERS = ["work", "root", "home", "opt", "mnt", "Users", "private", "builds", "workspace", "scratch"]
HOSTS = ["pypi" + r"\.org", "python" + "hosted", "download" + r"\.pytorch", "pypi" + r"\.nvidia", "anaconda" + r"\.org"]
# A slash that starts a path: not inside one (a/b), a formula or an address.
MACHINE_PATH = re.compile(r"(?<![\w./:~-])/(?:" + "|".join(FOLDERS) + r")/[\w.]")
REGISTRY = re.compile("|".join(HOSTS) + r"|\b(?:extra-)?index-url\b\s*[=:]?\s*\w+://", re.IGNORECASE)


def _findings(text: str) -> list[str]:
    return [line for line in text.splitlines() if MACHINE_PATH.search(line) or REGISTRY.search(line)]


def _files() -> list[Path]:
    """Return tracked files and those that the next commit could add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "line",
    [
        "cd /" + "work/main",
        "path = '/" + "root/.cache/x'",
        "--find-links=/" + "opt/wheels",
        "see https://pypi" + ".org/simple",
        "https://files.python" + "hosted.org/x.whl",
        "--extra-index-" + "url https://example.com/simple",
    ],
)
def test_a_machine_path_or_registry_is_found(line: str) -> None:
    assert _findings(f"first\n{line}\nlast") == [line]


@pytest.mark.parametrize("line", ["src/work/file.py", "a ratio of home/away", "see docs/adr/0001.md", "/dev/shm/x"])
def test_a_relative_path_is_no_finding(line: str) -> None:
    assert _findings(line) == []


def test_no_file_of_the_repository_names_a_machine_path_or_a_registry() -> None:
    found = []
    for file in _files():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and checkpoints carry no text to read
        found += [f"{file.relative_to(ROOT)}: {line.strip()}" for line in _findings(text)]

    assert found == []
