"""The constraint solver in one kernel finds what the engine's solver finds in the same rows.

MuJoCo moves the scenes and finds their contacts, so that of the engine no more is compiled than what makes rows and
solves them. Scenes of one size share kernels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from application.tasks.registry import TASKS
from tests.adapters.mjwarp import worlds

mujoco: Any = pytest.importorskip("mujoco")
Arrays = dict[str, NDArray[Any]]
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="Torch sees no CUDA device")
on_each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=(cuda, pytest.mark.cuda))])

ROWS, HUMANOID_ROWS = 96, worlds.HUMANOID_ROOM.constraints
OPTION = '<option jacobian="sparse"/>'
"""The engine would choose dense rows for models as small as these."""
LINKS = 18
TOLERANCE = 1e-4
"""Of the largest value: what the order of sums in float32 leaves of it here is up to 6e-5, and mostly 5e-6."""


def bodies(condim: int) -> str:
    """A ball on the floor, and a box on the floor with another on it: 18 degrees of freedom."""
    rubs = f'condim="{condim}" friction="0.7 0.02 0.01"'
    box = f'<freejoint/><geom type="box" size=".1 .1 .1" {rubs}/>'
    return (
        f'<mujoco>{OPTION}<worldbody><geom type="plane" size="9 9 .1" {rubs}/><body pos="0 0 .095">{box}</body>'
        f'<body pos=".05 0 .29">{box}</body><body pos="1 0 .095"><freejoint/><geom size=".1" {rubs}/></body>'
        "</worldbody></mujoco>"
    )


def chain(rows: str = "", joint: str = "", last_joint: str = "") -> str:
    """As many degrees of freedom, of hanging links; ``rows`` are the equalities and tendons between them."""
    links = "".join(
        f'<body name="b{i}" pos="0 0 -.1"><joint name="j{i}" axis="{i % 2} {1 - i % 2} 0" armature=".05" damping="2" '
        f"{last_joint if i == LINKS - 1 else joint}/>"
        f'<geom type="capsule" fromto="0 0 0 0 0 -.1" size=".02" contype="0" conaffinity="0"/><site name="s{i}"/>'
        for i in range(LINKS)
    )
    body = f'<worldbody><site name="s" pos=".3 0 0"/>{links}{"</body>" * LINKS}</worldbody>'
    return f"<mujoco>{OPTION}{body}{rows}</mujoco>"


EQUALITIES = (
    f'<equality><connect body1="b{LINKS - 1}" body2="b0" anchor="0 0 -.1"/><weld body1="b9" body2="b4"/>'
    '<joint joint1="j12" joint2="j2" polycoef=".1 1 0 0 0"/></equality>'
)
TENDONS = (
    '<tendon><fixed name="f" limited="true" range="-.1 .1" frictionloss=".7"><joint joint="j1" coef="1"/>'
    '<joint joint="j8" coef="-2"/></fixed><spatial name="t" limited="true" range="0 .5" frictionloss="2">'
    '<site site="s"/><site site="s7"/></spatial></tendon><equality><tendon tendon1="t" tendon2="f"/></equality>'
)
SCENES = {
    "contacts without friction": bodies(1),
    "contacts": bodies(3),
    "contacts that resist twisting": bodies(4),
    "contacts that resist rolling": bodies(6),
    "limits": chain(joint='range="-1 1"'),
    "dry friction that gives way": chain(last_joint='frictionloss=".3"'),
    "dry friction that holds": chain(joint='frictionloss="90"', last_joint='frictionloss=".3"'),
    "equalities that reach all degrees of freedom": chain(EQUALITIES, joint='frictionloss=".1"'),
    "tendons": chain(TENDONS),
    "tendons and dry friction at one joint": chain(TENDONS, joint='range="-1 1"', last_joint='frictionloss=".3"'),
}


@contextmanager
def on(device: str) -> Iterator[None]:
    from adapters.mjwarp.device import WarpDevice

    with WarpDevice(torch.device(device)).scope():
        yield


def disturbed(model: Any, seed: int, amount: float = 0.02) -> Any:
    """MuJoCo's data with the constraint rows of a random state and a bad guess of the acceleration."""
    generator = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    mujoco.mj_integratePos(model, data.qpos, amount * generator.standard_normal(model.nv), 1.0)
    data.qvel = generator.standard_normal(model.nv)
    mujoco.mj_forward(model, data)
    data.qacc_warmstart = 2.0 * generator.random(model.nv) * data.qacc
    return data


def put(model: Any, data: Any, nworld: int = 1, rows: int = ROWS) -> tuple[Any, Any]:
    """Return the engine's model and as many worlds as asked for, all as ``data`` is."""
    from adapters.mjwarp.compiled_model import put_on_device
    from adapters.mjwarp.engine import mujoco_warp as mjw

    device_model = put_on_device(model)
    device_data = mjw.put_data(model, data, nworld=nworld, njmax=rows, naconmax=nworld * 128)
    # As the engine makes them: its solver counts on rows of one contact being alike, which MuJoCo's need not be.
    mjw.make_constraint(device_model, device_data)
    return device_model, device_data


def results(data: Any) -> Arrays:
    """Return what a solver writes for each world; of rows, those that exist."""
    exists = np.arange(data.njmax) < data.nefc.numpy()[:, None]
    found = {name: getattr(data, name).numpy().copy() for name in ("qacc", "qfrc_constraint", "solver_niter")}
    found["Ma"] = data.efc.Ma.numpy().copy()
    return found | {name: np.where(exists, getattr(data.efc, name).numpy(), 0) for name in ("force", "state")}


def spoil(data: Any) -> None:
    """What was there before must not show in what a solver writes."""
    for array in (data.qacc, data.qfrc_constraint, data.efc.Ma, data.efc.force):
        array.fill_(float("nan"))
    data.efc.state.fill_(-1)
    data.solver_niter.fill_(-1)


def solved(model: Any, data: Any) -> Arrays:
    from adapters.mjwarp.newton import newton_for

    solve = newton_for(model, data)
    assert solve is not None
    spoil(data)
    solve()
    return results(data)


def solved_by_engine(model: Any, data: Any) -> Arrays:
    from adapters.mjwarp.engine import mujoco_warp as mjw

    spoil(data)
    mjw.solve(model, data)
    return results(data)


def assert_same(found: Arrays, wanted: Arrays) -> None:
    for name, scale in {"qacc": "qacc", "qfrc_constraint": "Ma", "Ma": "Ma", "force": "force"}.items():
        largest = max(float(np.abs(wanted[scale]).max()), 1e-6)
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=TOLERANCE * largest, err_msg=name)
    assert np.array_equal(found["state"], wanted["state"])
    assert np.abs(found["solver_niter"] - wanted["solver_niter"]).max() <= 1


def assert_as_mujoco(found: Arrays, host: Any) -> None:
    """MuJoCo has solved the same rows in float64."""
    largest = np.abs(host.qacc).max()
    np.testing.assert_allclose(found["qacc"][0], host.qacc, rtol=0, atol=10 * TOLERANCE * largest)


def assert_solves(mjcf: str, device: str) -> None:
    model = mujoco.MjModel.from_xml_string(mjcf)
    for seed in range(3):
        host = disturbed(model, seed)
        assert host.nefc > 0
        with on(device):
            device_model, data = put(model, host)
            found = solved(device_model, data)
            assert_same(found, solved_by_engine(device_model, data))
        assert_as_mujoco(found, host)


@on_each_device
@pytest.mark.parametrize("scene", SCENES)
def test_it_finds_what_the_engine_and_mujoco_find(scene: str, device: str) -> None:
    assert_solves(SCENES[scene], device)


@on_each_device
def test_rows_without_a_place_in_shared_memory_count_as_much(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from adapters.mjwarp import newton

    monkeypatch.setattr(newton, "_STAGED", 2)
    newton._kernel.cache_clear()
    try:
        assert_solves(SCENES["contacts"], device)
    finally:
        newton._kernel.cache_clear()


@on_each_device
def test_it_finds_what_mujoco_finds_for_a_humanoid_that_lies_on_its_arms(device: str) -> None:
    from adapters.mjwarp.compiled_model import compile_physics

    scene = TASKS["g1_walk"].build("ppo").make_scene()
    model = compile_physics(scene)
    model.qpos0[:] = scene.index.default_qpos
    model.qpos0[2:7] = (0.1, 0.7071, 0.0, -0.7071, 0.0)
    hosts = [disturbed(model, seed, amount=0.4) for seed in range(3)]
    assert max(host.nefc for host in hosts) > 100

    for host in hosts:
        with on(device):
            assert_as_mujoco(solved(*put(model, host, rows=HUMANOID_ROWS)), host)


@on_each_device
def test_worlds_of_a_batch_are_solved_each_for_itself(device: str) -> None:
    model = mujoco.MjModel.from_xml_string(SCENES["contacts"])
    with on(device):
        device_model, data = put(model, disturbed(model, 0), nworld=3)
        starts = 30.0 * np.random.default_rng(0).standard_normal(data.qacc_warmstart.shape)
        starts[2] = 0.0
        data.qacc_warmstart.assign(starts.astype(np.float32))
        found = solved(device_model, data)
        assert_same(found, solved_by_engine(device_model, data))
        again = solved(device_model, data)

    assert all(np.array_equal(again[name], found[name]) for name in found)


@on_each_device
def test_a_world_whose_rows_are_taken_away_moves_freely(device: str) -> None:
    """Blocks and rows of the step before are still there."""
    model = mujoco.MjModel.from_xml_string(SCENES["tendons and dry friction at one joint"])
    host = disturbed(model, 0)
    with on(device):
        device_model, data = put(model, host, nworld=2)
        before = solved(device_model, data)
        data.nefc.assign(np.array([host.nefc, 0], dtype=np.int32))
        found = solved(device_model, data)

    # The solver is content with a gradient of 1e-6 of the inertia's trace.
    largest = np.abs(host.qacc_smooth).max()
    np.testing.assert_allclose(found["qacc"][1], host.qacc_smooth, rtol=0, atol=10 * TOLERANCE * largest)
    assert np.all(found["qfrc_constraint"][1] == 0.0)
    assert all(np.array_equal(found[name][0], before[name][0]) for name in found)


def assert_second_world_shows_it(found: Arrays, whole: Arrays) -> None:
    """Integrators read Ma: were that finite the next state would be, too, and wrong."""
    for name in found:
        assert np.array_equal(found[name][[0, 2]], whole[name][[0, 2]]), name
    for name in ("qacc", "Ma"):
        assert not np.isfinite(found[name][1]).all(), name


@on_each_device
@pytest.mark.parametrize(
    ("what", "value"),
    [
        *(("qfrc_smooth", value) for value in (np.nan, np.inf, 1e17)),
        *(("qacc_warmstart", value) for value in (np.nan, np.inf, 1e17)),
        *(("aref", value) for value in (np.nan, np.inf)),
    ],
)
def test_a_world_that_is_broken_shows_it_and_breaks_no_other(what: str, value: float, device: str) -> None:
    model = mujoco.MjModel.from_xml_string(SCENES["contacts"])
    with on(device):
        device_model, data = put(model, disturbed(model, 0), nworld=3)
        whole = solved(device_model, data)
        array = getattr(data.efc if what == "aref" else data, what)
        values = array.numpy()
        values[1, 2] = value
        array.assign(values)
        assert_second_world_shows_it(solved(device_model, data), whole)


@on_each_device
@pytest.mark.parametrize("dof", [0, LINKS - 1])
@pytest.mark.parametrize("scene", ["contacts", "limits"])
def test_a_world_of_negative_inertia_shows_it_and_breaks_no_other(scene: str, dof: int, device: str) -> None:
    model = mujoco.MjModel.from_xml_string(SCENES[scene])
    with on(device):
        device_model, data = put(model, disturbed(model, 0), nworld=3)
        whole = solved(device_model, data)
        values = data.M.numpy()
        values[1, int(model.M_rowadr[dof] + model.M_rownnz[dof]) - 1] *= -10.0
        data.M.assign(values)
        assert_second_world_shows_it(solved(device_model, data), whole)


@on_each_device
def test_bodies_at_rest_are_held_by_their_weight(device: str) -> None:
    model = mujoco.MjModel.from_xml_string(SCENES["contacts without friction"])
    host = mujoco.MjData(model)
    host.qpos[7] = 0.0  # the upper box straight above the lower
    mujoco.mj_step(model, host, 2000)
    mujoco.mj_forward(model, host)
    host.qacc_warmstart = 0.0

    with on(device):
        found = solved(*put(model, host))

    weight = 9.81 * model.body_mass[1:]
    assert found["qfrc_constraint"][0, 2::6] == pytest.approx(weight, rel=1e-4)
    assert found["force"][0].sum() == pytest.approx(weight.sum() + weight[1], rel=1e-4)
    assert np.abs(found["qacc"][0]).max() < 1e-3


@pytest.mark.parametrize(
    "option",
    [
        'jacobian="sparse" cone="elliptic"',
        'jacobian="dense"',
        'jacobian="sparse" solver="CG"',
        'jacobian="sparse" iterations="0"',
        'jacobian="sparse" noslip_iterations="3"',
        'jacobian="sparse" integrator="RK4"',
    ],
)
def test_it_leaves_a_model_with_other_options_to_the_engine(option: str) -> None:
    assert not serves(bodies(3).replace(OPTION, f"<option {option}/>"))


def test_it_leaves_a_model_that_is_too_large_to_the_engine() -> None:
    body = '<body><joint/><geom size=".1" contype="0" conaffinity="0"/></body>'

    assert serves(f"<mujoco>{OPTION}<worldbody>{body * 40}</worldbody></mujoco>")
    assert not serves(f"<mujoco>{OPTION}<worldbody>{body * 65}</worldbody></mujoco>")
    assert not serves(bodies(3), rows=3000)


def serves(mjcf: str, rows: int = ROWS) -> bool:
    from adapters.mjwarp.compiled_model import put_on_device
    from adapters.mjwarp.engine import mujoco_warp as mjw
    from adapters.mjwarp.newton import newton_for

    model = mujoco.MjModel.from_xml_string(mjcf)
    with on("cpu"):
        return newton_for(put_on_device(model), mjw.make_data(model, njmax=rows, naconmax=128)) is not None
