"""MujocoBackend's stepping, committing and divergence, on models small enough to check by hand."""

import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from adapters.mujoco import affinity
from adapters.mujoco.backend import MujocoBackend
from domain.errors import ConfigurationError, SimulationError
from domain.physics import PhysicsBackend, StateWrite
from tests.adapters.mujoco.small_scenes import SLIDER, WALKER, drive, rows, write_of


def test_backend_meets_the_physics_port() -> None:
    backend: PhysicsBackend = MujocoBackend(WALKER, 2)

    assert backend.num_envs == 2
    assert backend.device == torch.device("cpu")
    assert backend.index is WALKER.index


def test_every_env_starts_in_the_default_keyframe_with_current_sensors() -> None:
    backend = MujocoBackend(WALKER, 3)

    expected = torch.tensor(WALKER.index.default_qpos).expand(3, -1)
    torch.testing.assert_close(backend.state.qpos, expected, atol=0, rtol=0)
    torch.testing.assert_close(backend.state.sensordata[:, 3:6], torch.tensor([[0.05, 0.0, 0.31]]).expand(3, -1))
    assert not backend.state.qvel.any()
    assert not backend.state.diverged.any()


def test_a_free_fall_follows_the_semi_implicit_euler_sums() -> None:
    backend = MujocoBackend(SLIDER, 2)

    backend.step(5)

    # v = -10 * 0.05; z = -10 * 0.01^2 * (1 + 2 + 3 + 4 + 5)
    torch.testing.assert_close(backend.state.qvel, torch.full((2, 1), -0.5))
    torch.testing.assert_close(backend.state.qpos, torch.full((2, 1), -0.015))


def test_views_keep_their_storage_and_are_float32() -> None:
    backend = MujocoBackend(WALKER, 4)
    state = backend.state
    before = [view.data_ptr() for view in (state.qpos, state.qvel, state.sensordata, state.diverged, backend.control)]

    drive(backend, 3)
    backend.commit(write_of(backend, reset=rows(4, 1)))

    state = backend.state
    after = [view.data_ptr() for view in (state.qpos, state.qvel, state.sensordata, state.diverged, backend.control)]
    assert before == after
    assert {view.dtype for view in (state.qpos, state.qvel, state.sensordata, backend.control)} == {torch.float32}


def test_control_columns_are_in_actuator_order_and_joints_in_kinematic_order() -> None:
    backend = MujocoBackend(WALKER, 1)

    backend.control[0] = torch.tensor([0.9, 0.1])  # right_motor, left_motor
    backend.step(20)

    left, right = backend.state.qpos[0, 7:9].tolist()
    assert right > 0.4
    assert left < 0.3


def test_sensors_are_one_substep_behind_after_a_step() -> None:
    backend = MujocoBackend(WALKER, 1)
    backend.commit(_raised(backend))

    backend.step(1)
    backend.step(1)

    # Free fall: after 2 substeps qpos has fallen g dt^2 (1 + 2), the position sensor shows only the first of them.
    fallen = 9.81 * 0.005**2
    assert 1.0 - backend.state.qpos[0, 2].item() == pytest.approx(3 * fallen, rel=2e-2)
    assert 1.02 - backend.state.sensordata[0, 5].item() == pytest.approx(fallen, rel=2e-2)


def test_a_commit_makes_the_sensors_of_written_rows_current_and_leaves_the_other_rows_bits() -> None:
    backend = MujocoBackend(WALKER, 4)
    twin = MujocoBackend(WALKER, 4)
    drive(backend, 10)
    drive(twin, 10)
    untouched = rows(4, 0, 1, 3)
    write = write_of(backend, written=rows(4, 2))
    write.qvel[:] = 7.0  # other rows of the staged tensors must not count
    write.qpos[2, :3] = torch.tensor([1.0, 2.0, 3.0])
    write.qpos[2, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])

    backend.commit(write)

    torch.testing.assert_close(backend.state.sensordata[2, 3:6], torch.tensor([1.05, 2.0, 3.02]))
    assert torch.equal(backend.state.sensordata[untouched], twin.state.sensordata[untouched])
    after, expected = drive(backend, 20), drive(twin, 20)
    assert torch.equal(torch.stack(after)[:, untouched], torch.stack(expected)[:, untouched])
    assert not torch.equal(after[-1][2], expected[-1][2])


def test_an_empty_commit_does_not_even_read() -> None:
    backend = MujocoBackend(WALKER, 2)
    backend.state.qpos[0, 0] = 123.0

    backend.commit(write_of(backend))

    assert backend.state.qpos[0, 0] == 123.0


def test_a_reset_row_continues_like_a_fresh_simulation() -> None:
    backend, fresh = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    drive(backend, 25)

    for each in (backend, fresh):
        write = write_of(each, reset=rows(3, 1))
        write.qpos[1] = torch.tensor(WALKER.index.default_qpos)
        write.qvel[1] = 0.0
        each.commit(write)

    # Time, warm start and control are as new, and so are the bits of the next 20 steps.
    assert torch.equal(backend.snapshot()["state"][1], fresh.snapshot()["state"][1])
    assert not torch.equal(backend.snapshot()["state"][0], fresh.snapshot()["state"][0])
    assert torch.equal(torch.stack(drive(backend, 20))[:, 1], torch.stack(drive(fresh, 20))[:, 1])


def test_nan_velocity_ends_only_its_own_row() -> None:
    backend, twin = MujocoBackend(WALKER, 5), MujocoBackend(WALKER, 5)
    drive(backend, 5)
    drive(twin, 5)

    backend._qvel[3, 2] = math.nan
    seen, expected = drive(backend, 1), drive(twin, 1)

    others = rows(5, 0, 1, 2, 4)
    assert backend.state.diverged.tolist() == [False, False, False, True, False]
    assert torch.equal(seen[0][others], expected[0][others])
    assert backend.state.qpos.isfinite().all()
    seen, expected = drive(backend, 10), drive(twin, 10)
    assert torch.equal(torch.stack(seen)[:, others], torch.stack(expected)[:, others])
    assert not backend.state.diverged.any()


def test_a_row_that_diverges_again_is_flagged_again() -> None:
    backend = MujocoBackend(WALKER, 2)
    flags = []

    for _ in range(3):
        backend._qvel[1, 0] = math.nan
        backend.step(2)
        flags.append(backend.state.diverged.tolist())

    assert flags == [[False, True]] * 3


def test_a_value_beyond_float32_is_flagged_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    backend = MujocoBackend(SLIDER, 3)

    backend._qpos[1] = 1e9
    backend._qvel[1] = 9e9
    backend.step(1)
    assert backend.state.diverged.tolist() == [False, False, False]
    backend._qpos[1] = 1e300
    backend._read()
    backend._find_diverged()

    assert backend.state.diverged.tolist() == [False, True, False]
    assert len(recwarn) == 0


def test_a_reset_commit_takes_the_flag_off() -> None:
    backend = MujocoBackend(WALKER, 2)
    backend._qvel[:, 0] = math.nan
    backend.step(1)
    write = write_of(backend, reset=rows(2, 0))
    write.qpos[0] = torch.tensor(WALKER.index.default_qpos)

    backend.commit(write)

    assert backend.state.diverged.tolist() == [False, True]


def test_a_written_state_that_the_engine_throws_away_is_flagged_by_the_next_step() -> None:
    backend = MujocoBackend(SLIDER, 2)
    write = write_of(backend, reset=rows(2, 1))
    write.qpos[1] = 1e12

    backend.commit(write)
    backend.step(1)

    assert backend.state.diverged.tolist() == [False, True]


def test_non_finite_control_is_refused_with_rows_and_actuators() -> None:
    backend = MujocoBackend(WALKER, 4)
    before = backend.state.qpos.clone()
    backend.control[2, 1] = math.nan

    with pytest.raises(SimulationError, match=r"envs \[2\], actuators \['left_motor'\]"):
        backend.step(2)

    assert torch.equal(backend.state.qpos, before)


def test_a_non_finite_write_is_refused_before_anything_is_applied() -> None:
    backend, twin = MujocoBackend(WALKER, 3), MujocoBackend(WALKER, 3)
    write = write_of(backend, reset=rows(3, 0, 2))
    write.qvel[2, 0] = math.inf

    with pytest.raises(SimulationError, match=r"qvel written to envs \[2\]"):
        backend.commit(write)

    assert torch.equal(torch.stack(drive(backend, 5)), torch.stack(drive(twin, 5)))


def test_the_contact_sensor_carries_the_weight_of_a_standing_robot() -> None:
    backend = MujocoBackend(WALKER, 1)

    backend.control[:] = 0.0
    for _ in range(200):
        backend.step(2)

    found, force = backend.state.sensordata[0, 6], backend.state.sensordata[0, 7:10].norm()
    assert found > 0
    assert 10.0 < force < 95.0  # the left leg's share of 9.3 kg


@pytest.mark.parametrize("substeps", [0, -1])
def test_a_step_needs_at_least_one_substep(substeps: int) -> None:
    backend = MujocoBackend(SLIDER, 1)

    with pytest.raises(ConfigurationError, match="substeps"):
        backend.step(substeps)


def test_no_envs_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="num_envs is 0"):
        MujocoBackend(SLIDER, 0)


def test_skips_says_whether_the_mask_is_empty() -> None:
    backend = MujocoBackend(SLIDER, 3)

    assert backend.skips(rows(3))
    assert not backend.skips(rows(3, 2))
    assert not backend.skips(rows(3, 2), may_wait=True)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(affinity, "thread_count", lambda *_, threads=threads: threads)
        backend = MujocoBackend(WALKER, 7)
        runs.append(torch.stack(drive(backend, 200)))
        backend.close()

    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def test_close_ends_the_threads_and_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "thread_count", lambda *_: 3)
    before = affinity.task_ids()
    backend = MujocoBackend(WALKER, 4)
    during = affinity.task_ids()

    backend.close()
    backend.close()

    assert len(during - before) == 2
    assert affinity.task_ids() == before


@pytest.mark.parametrize(
    "use",
    [
        lambda backend: backend.step(1),
        lambda backend: backend.commit(_nothing()),
        lambda backend: backend.model_field("body_mass"),
        lambda backend: backend.snapshot(),
        lambda backend: backend.restore({}),
        lambda backend: backend.thread_affinity(),
    ],
)
def test_use_after_close_is_an_error(use: Callable[[MujocoBackend], object]) -> None:
    backend = MujocoBackend(SLIDER, 1)
    backend.close()

    with pytest.raises(SimulationError, match="closed"):
        use(backend)


def test_engine_messages_reach_neither_the_working_folder_nor_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = MujocoBackend(WALKER, 2)

    backend._qvel[0, 0] = math.nan
    backend.step(1)

    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_engine_messages_go_into_the_log_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    backend = MujocoBackend(WALKER, 2, log_dir=tmp_path / "run" / "logs")

    backend._qvel[0, 0] = math.nan
    backend.step(1)

    assert "QVEL" in (tmp_path / "run" / "logs" / "mujoco.log").read_text()
    assert list((tmp_path / "work").iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_thousand_steps_and_resets_do_not_grow_memory() -> None:
    backend = MujocoBackend(WALKER, 16)
    mass = backend.model_field("body_mass")

    def cycle(count: int) -> None:
        for step in range(count):
            backend.control[:] = 0.3
            backend.step(1)
            write = write_of(backend, reset=rows(16, step % 16), fields={"body_mass": rows(16, step % 16)})
            mass[step % 16, 1] = 7.0 + 0.1 * (step % 5)
            backend.commit(write)

    cycle(100)
    process = psutil.Process()
    resident = process.memory_info().rss
    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    cycle(1000)
    grown = tracemalloc.get_traced_memory()[0] - base
    tracemalloc.stop()

    assert grown < 20_000
    assert process.memory_info().rss - resident < 4_000_000


def _raised(backend: MujocoBackend) -> StateWrite:
    """Put every env at rest 1 m up, its legs free of load."""
    write = write_of(backend, reset=torch.ones(backend.num_envs, dtype=torch.bool))
    write.qpos[:] = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return write


def _nothing() -> StateWrite:
    none = torch.zeros(1, dtype=torch.bool)
    return StateWrite(reset=none, written=none, qpos=torch.zeros(1, 1), qvel=torch.zeros(1, 1))
