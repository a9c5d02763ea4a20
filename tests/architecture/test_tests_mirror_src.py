"""A test file lies where its subject lies.

``tests/domain/managers/test_reward.py`` tests ``src/domain/managers/reward.py``; ``test_reward_weights.py`` beside it
may take one aspect of the same module; ``tests/domain/test_managers.py`` may test a folder as a whole. Three folders
mirror nothing: ``architecture`` is about the tree, ``features`` about what a user does, ``benchmarks`` follows the
folder of that name. Files that pytest does not collect (fakes, conftest) are free.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FREE = frozenset({"architecture", "features", "benchmarks"})


def strays(tests: Path, src: Path) -> list[str]:
    """Return the test files that have no subject under ``src``."""
    found = []
    for test in sorted(tests.rglob("test_*.py")):
        place = test.relative_to(tests)
        if place.parts[0] not in FREE and not _has_subject(src / place.parent, place.stem.removeprefix("test_")):
            found.append(place.as_posix())
    return found


def _has_subject(folder: Path, name: str) -> bool:
    words = name.split("_")
    stems = ["_".join(words[:length]) for length in range(1, len(words) + 1)]
    return any((folder / f"{stem}.py").is_file() or (folder / stem).is_dir() for stem in stems)


@pytest.fixture
def src(tmp_path: Path) -> Path:
    _touch(tmp_path / "src/domain/managers/reward.py")
    return tmp_path / "src"


def _touch(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


@pytest.mark.parametrize(
    "test",
    [
        "domain/managers/test_reward.py",
        "domain/managers/test_reward_weights.py",
        "domain/test_managers.py",
        "features/test_a_newcomer_trains.py",
        "domain/managers/conftest.py",
    ],
)
def test_a_mirrored_test_is_accepted(tmp_path: Path, src: Path, test: str) -> None:
    _touch(tmp_path / "tests" / test)

    assert strays(tmp_path / "tests", src) == []


@pytest.mark.parametrize("test", ["domain/test_reward.py", "test_reward.py", "domain/managers/test_rewards.py"])
def test_a_stray_test_is_found(tmp_path: Path, src: Path, test: str) -> None:
    _touch(tmp_path / "tests" / test)

    assert strays(tmp_path / "tests", src) == [test]


def test_every_test_mirrors_src() -> None:
    assert strays(ROOT / "tests", ROOT / "src") == []
