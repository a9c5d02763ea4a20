"""MjwarpBackend's stepping, committing and divergence: the port's semantics, as the MuJoCo backend has them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from adapters.mujoco.backend import MujocoBackend
from domain.errors import ConfigurationError, DeviceError, SimulationError
from domain.physics import Execution, PhysicsBackend, SensorSlot
from tests.adapters.mjwarp.worlds import CPU, hold, make, put_default
from tests.adapters.mujoco.small_scenes import SLIDER, WALKER, drive, rows, write_of
from tests.support import host_sync

pytestmark = pytest.mark.slow


def test_backend_meets_the_physics_port() -> None:
    backend: PhysicsBackend = make(num_envs=2)

    assert backend.num_envs == 2
    assert backend.device == CPU
    assert backend.index is WALKER.index
    assert backend.capabilities.execution is Execution.DEVICE_RESIDENT


def test_every_env_starts_in_the_default_keyframe_with_current_sensors() -> None:
    backend, expected = make(), MujocoBackend(WALKER, 3)

    torch.testing.assert_close(backend.state.qpos, expected.state.qpos, atol=0, rtol=0)
    torch.testing.assert_close(backend.state.sensordata, expected.state.sensordata, atol=1e-6, rtol=0)
    assert not backend.state.qvel.any()
    assert not backend.state.diverged.any()


def test_a_free_fall_follows_the_semi_implicit_euler_sums() -> None:
    backend = make(SLIDER, 2)

    backend.step(5)

    torch.testing.assert_close(backend.state.qvel, torch.full((2, 1), -0.5))
    torch.testing.assert_close(backend.state.qpos, torch.full((2, 1), -0.015))


def test_views_are_the_engine_s_own_arrays_and_never_move() -> None:
    backend = make()
    state = backend.state
    before = [view.data_ptr() for view in (state.qpos, state.qvel, state.sensordata, state.diverged, backend.control)]

    drive(backend, 3)
    put_default(backend, rows(3, 1))

    state, data = backend.state, backend._simulation.data
    after = [view.data_ptr() for view in (state.qpos, state.qvel, state.sensordata, state.diverged, backend.control)]
    assert before == after
    assert after[:3] == [data.qpos.ptr, data.qvel.ptr, data.sensordata.ptr]
    assert {view.dtype for view in (state.qpos, state.qvel, state.sensordata, backend.control)} == {torch.float32}


@pytest.mark.parametrize("substeps", [1, 4])
def test_sensors_lag_one_substep_behind_as_the_engine_on_the_cpu_has_them(substeps: int) -> None:
    backend, expected = make(), MujocoBackend(WALKER, 3)
    for each in (backend, expected):
        write = write_of(each, written=rows(3, 0, 1, 2))
        write.qpos[:, 2] = 1.0
        write.qvel[:, 3] = 2.0
        each.commit(write)

    for _ in range(3):
        backend.step(substeps)
        expected.step(substeps)

    torch.testing.assert_close(backend.state.sensordata, expected.state.sensordata, atol=1e-5, rtol=0)
    lag = 0.005 * backend.state.qvel[:, 2].abs().min()
    assert (backend.state.sensordata[:, 5] - backend.state.qpos[:, 2]).max() > 0.5 * lag


def test_a_commit_makes_the_sensors_of_written_rows_current_and_leaves_the_other_rows_bits() -> None:
    backend, twin = make(num_envs=4), make(num_envs=4)
    drive(backend, 10)
    drive(twin, 10)
    untouched = rows(4, 0, 1, 3)
    write = write_of(backend, written=rows(4, 2))
    write.qvel[:] = 7.0  # other rows of the staged tensors must not count
    write.qpos[2, :3] = torch.tensor([1.0, 2.0, 3.0])
    write.qpos[2, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])

    backend.commit(write)

    torch.testing.assert_close(backend.state.sensordata[2, 3:6], torch.tensor([1.05, 2.0, 3.02]))
    for name in ("qpos", "qvel", "sensordata"):
        assert torch.equal(getattr(backend.state, name)[untouched], getattr(twin.state, name)[untouched])
    kept, expected = backend.snapshot(), twin.snapshot()
    assert torch.equal(kept["qacc_warmstart"][untouched], expected["qacc_warmstart"][untouched])
    after, expected_after = drive(backend, 20), drive(twin, 20)
    assert torch.equal(torch.stack(after)[:, untouched], torch.stack(expected_after)[:, untouched])
    assert not torch.equal(after[-1][2], expected_after[-1][2])


def test_a_commit_of_contacts_gives_written_rows_the_forces_of_the_engine_on_the_cpu() -> None:
    backend, expected = make(), MujocoBackend(WALKER, 3)
    for each in (backend, expected):
        write = write_of(each, reset=rows(3, 0, 2))
        write.qpos[:, 2] = 0.286  # feet 4 mm deep in the floor
        each.commit(write)

    assert expected.state.sensordata[0, 6:].abs().max() > 10.0
    torch.testing.assert_close(backend.state.sensordata, expected.state.sensordata, atol=5e-3, rtol=1e-4)


def test_a_sensor_that_delays_is_read_in_every_substep() -> None:
    start, end = WALKER.mjcf.index("<contact"), WALKER.mjcf.index("</sensor>")
    delayed = '<jointpos name="late" joint="left_joint" nsample="8" delay="0.01"/>'
    slots = {name: slot for name, slot in WALKER.index.sensors.items() if name != "left_contact"}
    slots["late"] = SensorSlot(name="late", type="jointpos", adr=6, dim=1)
    scene = replace(
        WALKER,
        mjcf=WALKER.mjcf[:start] + delayed + WALKER.mjcf[end:],
        index=replace(WALKER.index, sensors=slots, nsensordata=7),
    )
    backend, expected = make(scene), MujocoBackend(scene, 3)
    for _ in range(3):
        for each in (backend, expected):
            each.control.fill_(0.5)
            each.step(4)
        late = expected.state.sensordata[:, 6]
        assert (late - expected.state.qpos[:, 7]).abs().min() > 1e-3
        torch.testing.assert_close(backend.state.sensordata[:, 6], late, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "sensor",
    [
        '<framepos name="seen" objtype="camera" objname="head"/>',
        '<framepos name="seen" objtype="geom" objname="left_foot" reftype="camera" refname="head"/>',
        '<framelinvel name="seen" objtype="xbody" objname="left"/>',
        '<jointpos name="seen" joint="left_joint"/>',
        '<actuatorpos name="seen" actuator="left_motor"/>',
    ],
)
def test_a_commit_makes_any_sensor_without_forces_current(sensor: str) -> None:
    """Where all are of bodies' frames, less is computed; the others tell whether that is decided rightly."""
    mjcf = WALKER.mjcf.replace('<site name="imu"', '<camera name="head" pos="0.2 0 0.1"/><site name="imu"')
    start, end = mjcf.index("<contact"), mjcf.index("</sensor>")
    dim = 1 if "joint" in sensor.split()[0] or "actuator" in sensor.split()[0] else 3
    sensors = {
        **{name: slot for name, slot in WALKER.index.sensors.items() if name != "left_contact"},
        "seen": SensorSlot(name="seen", type=sensor[1:].split()[0], adr=6, dim=dim),
    }
    index = replace(WALKER.index, sensors=sensors, nsensordata=6 + dim)
    scene = replace(WALKER, mjcf=mjcf[:start] + sensor + mjcf[end:], index=index)
    backend, expected = make(scene), MujocoBackend(scene, 3)
    for each in (backend, expected):
        write = write_of(each, written=rows(3, 1))
        write.qpos[1] += torch.tensor([0.3, 0.2, 0.4, 0.0, 0.0, 0.0, 0.0, 0.2, -0.3])
        write.qvel[1] = torch.arange(8.0) / 10.0
        each.commit(write)

    torch.testing.assert_close(backend.state.sensordata, expected.state.sensordata, atol=1e-5, rtol=1e-5)
    assert (expected.state.sensordata[1, 6:] - expected.state.sensordata[0, 6:]).abs().max() > 0.01


def test_an_empty_commit_changes_no_bit() -> None:
    backend, twin = make(), make()
    for each in (backend, twin):
        drive(each, 5)

    backend.commit(write_of(backend))

    assert torch.equal(backend.state.sensordata, twin.state.sensordata)
    assert torch.equal(torch.stack(drive(backend, 10)), torch.stack(drive(twin, 10)))


def test_a_reset_row_continues_like_a_fresh_simulation_and_no_other_row_notices() -> None:
    backend, twin, fresh = make(), make(), make()
    drive(backend, 25)
    drive(twin, 25)

    for each in (backend, fresh):
        put_default(each, rows(3, 1))

    assert backend.snapshot()["time"][1] == 0.0
    assert not backend.snapshot()["qacc_warmstart"][1].any()
    seen, expected = torch.stack(drive(backend, 20)), torch.stack(drive(twin, 20))
    assert torch.equal(seen[:, [0, 2]], expected[:, [0, 2]])
    assert torch.equal(seen[:, 1], torch.stack(drive(fresh, 20))[:, 1])


def test_a_broken_world_is_flagged_and_contained() -> None:
    backend, twin = make(num_envs=5), make(num_envs=5)
    drive(backend, 5)
    drive(twin, 5)
    others = rows(5, 0, 1, 2, 4)

    backend.state.qvel[3, 2] = math.nan
    seen, expected = drive(backend, 1), drive(twin, 1)

    assert backend.state.diverged.tolist() == [False, False, False, True, False]
    assert torch.equal(seen[0][others], expected[0][others])
    assert torch.cat([backend.state.qpos, backend.state.qvel, backend.state.sensordata], dim=1).isfinite().all()
    torch.testing.assert_close(backend.state.qpos[3], torch.tensor(WALKER.index.default_qpos))
    seen, expected = drive(backend, 10), drive(twin, 10)
    assert torch.equal(torch.stack(seen)[:, others], torch.stack(expected)[:, others])
    assert not backend.state.diverged.any()
    assert torch.stack(seen).isfinite().all()


def test_a_contained_row_continues_like_a_fresh_simulation() -> None:
    backend, fresh = make(), make()
    drive(backend, 12)
    backend.state.qpos[1, 0] = math.inf
    backend.step(1)

    assert torch.equal(hold(backend, 20)[:, 1], hold(fresh, 20)[:, 1])


def test_a_row_that_diverges_again_is_flagged_again_and_a_reset_takes_the_flag_off() -> None:
    backend = make(num_envs=2)
    flags = []
    for _ in range(3):
        backend.state.qvel[1, 0] = math.nan
        backend.step(2)
        flags.append(backend.state.diverged.tolist())

    put_default(backend, rows(2, 1))

    assert flags == [[False, True]] * 3
    assert not backend.state.diverged.any()


def test_a_state_beyond_the_engine_s_limit_is_flagged() -> None:
    backend = make(SLIDER, 3)
    backend.state.qvel[:] = torch.tensor([[0.0], [9e9], [2e10]])

    backend.step(1)

    assert backend.state.diverged.tolist() == [False, False, True]


def test_control_that_is_not_finite_is_taken_as_zero_and_flagged() -> None:
    backend, zero = make(num_envs=4), make(num_envs=4)
    backend.control[:] = 0.2
    zero.control[:] = 0.2
    backend.control[2, 1] = math.nan
    zero.control[2, 1] = 0.0

    backend.step(2)
    zero.step(2)

    assert backend.state.diverged.tolist() == [False, False, True, False]
    assert torch.equal(backend.state.qpos, zero.state.qpos)


def test_a_write_that_is_not_finite_becomes_the_default_pose_and_is_flagged_once() -> None:
    backend = make()
    write = write_of(backend, written=rows(3, 0, 2))
    write.qvel[2, 0] = math.inf
    write.qpos[1, 0] = math.nan  # not written

    backend.commit(write)

    torch.testing.assert_close(backend.state.qpos[2], torch.tensor(WALKER.index.default_qpos))
    flags = []
    for _ in range(2):
        backend.step(1)
        flags.append(backend.state.diverged.tolist())
    assert flags == [[False, False, True], [False, False, False]]


def test_skips_answers_only_a_caller_that_may_wait() -> None:
    backend = make(SLIDER, 3)

    assert not backend.skips(rows(3))
    assert backend.skips(rows(3), may_wait=True)
    assert not backend.skips(rows(3, 2), may_wait=True)


@pytest.mark.parametrize("substeps", [0, -1])
def test_a_step_needs_at_least_one_substep(substeps: int) -> None:
    with pytest.raises(ConfigurationError, match="substeps"):
        make(SLIDER, 1).step(substeps)


def test_no_envs_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="num_envs is 0"):
        make(SLIDER, 0)


def test_another_kind_of_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="CUDA GPU or, slowly, on the CPU, not on mps"):
        make(SLIDER, 1, device=torch.device("mps"))


def test_recording_is_refused_on_the_cpu() -> None:
    with (
        pytest.raises(ConfigurationError, match="is on the CPU: a CUDA graph cannot record it"),
        make(SLIDER).recording(),
    ):
        pass


@pytest.mark.parametrize(
    "use",
    [
        lambda backend: backend.step(1),
        lambda backend: backend.commit(None),
        lambda backend: backend.model_field("body_mass"),
        lambda backend: backend.snapshot(),
        lambda backend: backend.restore({}),
        lambda backend: backend.recording(),
        lambda backend: backend.notice(),
    ],
)
def test_use_after_close_is_an_error(use: Callable[[Any], object]) -> None:
    backend = make(SLIDER, 1)
    backend.close()
    backend.close()

    with pytest.raises(SimulationError, match="closed"):
        use(backend)


def test_step_and_commit_hand_nothing_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_sync, "ALLOWED", ())
    backend = make()
    mass = backend.model_field("body_mass")
    write = write_of(backend, reset=rows(3, 1), fields={"body_mass": rows(3, 1)})
    mass[1, 1] = 8.0

    with host_sync.ForbidHostSync():
        backend.step(2)
        backend.commit(write)
        backend.step(2)

    assert not backend.state.diverged.any()


def test_the_engine_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    backend = make()

    backend.state.qvel[0, 0] = math.nan
    drive(backend, 2)
    put_default(backend, rows(3, 0))

    assert capfd.readouterr() == ("", "")
