"""Facts about this machine, checked against other ways of asking."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

from adapters.system.probe import LocalSystem

SYSTEM = LocalSystem()


def test_versions_are_those_installed() -> None:
    assert SYSTEM.versions(["torch", "no-such-package"]) == {"torch": torch.__version__, "no-such-package": None}


def test_the_cpu_comes_first_and_every_device_is_one_of_torch_s() -> None:
    names = [device.name for device in SYSTEM.devices()]

    assert names[0] == "cpu"
    assert [str(torch.device(name)) for name in names] == names


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_usable_processors_follow_the_affinity_mask() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert SYSTEM.processors().usable == 1
    finally:
        os.sched_setaffinity(0, before)


def test_free_memory_of_the_cpu_is_part_of_what_there_is() -> None:
    free, (cpu, *_) = SYSTEM.free_memory("cpu"), SYSTEM.devices()

    assert free is not None
    assert cpu.memory_bytes is not None
    assert 0 < free < cpu.memory_bytes
    assert SYSTEM.free_memory("meta") is None


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_free_memory_of_a_gpu_shrinks_with_what_is_allocated() -> None:
    before = SYSTEM.free_memory("cuda:0")
    block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
    after = SYSTEM.free_memory("cuda:0")

    assert before is not None
    assert after is not None
    assert before - after >= block.numel()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_shared_memory_is_what_is_free_under_dev_shm() -> None:
    free = SYSTEM.shared_memory()
    facts = os.statvfs("/dev/shm")

    assert free is not None
    # Others may take some in between.
    assert free == pytest.approx(facts.f_bavail * facts.f_frsize, abs=64 << 20)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "x")
    monkeypatch.chdir(tmp_path)

    clean = SYSTEM.commit()
    (tmp_path / "file").write_text("2")
    changed = SYSTEM.commit()

    assert clean is not None
    assert changed is not None
    assert (clean.id, clean.dirty, changed.dirty) == (git(tmp_path, "rev-parse", "HEAD"), False, True)


def test_no_checkout_and_no_git_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert SYSTEM.commit() is None

    monkeypatch.setenv("PATH", "")
    assert SYSTEM.commit() is None
