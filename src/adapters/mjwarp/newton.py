"""The constraint solver as one kernel, where the engine launches twelve for each of its iterations (ADR 15)."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from adapters.mjwarp.engine import mujoco_warp as mjw
from adapters.mjwarp.engine import warp as wp

_THREADS = 96
"""Of a world's block on a GPU; on the CPU one thread does all. A thread keeps a row of the Hessian in registers."""
_RESIDENT = 7
"""Blocks that a multiprocessor shall hold at once, where its memory allows; that bounds their registers."""
_STAGED = 36
"""Contacts and limits whose Jacobian has a place in shared memory; the others' is read where it is."""
_BLOCK_BYTES = 48_000
"""Of shared memory, what a block may have without asking."""
_SHARED_BYTES = 227 * 1024
"""Of a multiprocessor."""
_INTEGRATORS = (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICIT, mjw.IntegratorType.IMPLICITFAST)
_BODY = "".join(
    files("adapters.mjwarp").joinpath(name).read_text(encoding="utf-8") for name in ("thread_block.cu", "newton.cu")
)


@wp.struct
class _Problem:
    """The engine's arrays under the engine's names; first those of options, model, data and constraint rows."""

    tolerance: wp.array[float]
    ls_tolerance: wp.array[float]
    M_elemid: wp.array2d[int]
    ne: wp.array[int]
    nf: wp.array[int]
    nefc: wp.array[int]
    dof_frictionadr: wp.array2d[int]
    M: wp.array2d[float]
    qfrc_smooth: wp.array2d[float]
    qacc_warmstart: wp.array2d[float]
    jtdaj_adr: wp.array2d[int]
    jtdaj_nrow: wp.array2d[int]
    jtdaj_nblock: wp.array[int]
    J_rownnz: wp.array2d[int]
    J_rowadr: wp.array2d[int]
    J_colind: wp.array3d[int]
    J: wp.array3d[float]
    D: wp.array2d[float]
    aref: wp.array2d[float]
    frictionloss: wp.array2d[float]
    # What the solver writes.
    qacc: wp.array2d[float]
    qfrc_constraint: wp.array2d[float]
    solver_niter: wp.array[int]
    Ma: wp.array2d[float]
    force: wp.array2d[float]
    state: wp.array2d[int]


def newton_for(model: Any, data: Any) -> Callable[[], None] | None:
    """Return what solves the constraints of ``data``, as ``mujoco_warp.solve`` does, or None where it cannot.

    It serves Newton with pyramidal cones and a sparse Jacobian, as long as a world fits into a block's shared memory:
    35 degrees of freedom with 1,400 constraint rows, 55 with 400. A world whose accelerations are not finite, or whose
    matrix is not positive definite, gets NaN and leaves the others alone.
    """
    options = model.opt
    fits = (
        options.solver == mjw.SolverType.NEWTON
        and options.integrator in _INTEGRATORS
        and options.cone == mjw.ConeType.PYRAMIDAL
        and options.iterations > 0
        and options.ls_iterations > 3
        and options.noslip_iterations == 0
        and not options.disableflags & mjw.DisableBit.WARMSTART
        and model.is_sparse
        and data.njmax > 0
        and _bytes(model.nv, data.njmax) <= _BLOCK_BYTES
    )
    if not fits:
        return None
    kernel = _kernel(int(model.nv), int(data.njmax), int(options.iterations), int(options.ls_iterations))
    problem = _Problem()
    for name in _Problem.__annotations__:
        owner = next(part for part in (data.efc, data, model, options) if hasattr(part, name))
        setattr(problem, name, getattr(owner, name))
    threads = _THREADS if data.qacc.device.is_cuda else 1

    def solve() -> None:
        wp.launch_tiled(kernel, dim=data.nworld, inputs=[problem], block_dim=threads)  # type: ignore[no-untyped-call]

    return solve


def _bytes(nv: int, rows: int) -> int:
    """Return how much shared memory a block takes, to within some hundred bytes."""
    return 9 * nv * (nv + 6) + 17 * rows + 288 * _STAGED + 256


@cache
def _kernel(nv: int, rows: int, iterations: int, line_iterations: int) -> Any:
    """Return the kernel for a model and its buffers; one for each, since sizes are constants of the code."""
    sizes = {"NV": nv, "ROWS": rows, "ITERATIONS": iterations, "LINE_ITERATIONS": line_iterations}
    sizes["STAGED"] = _STAGED
    snippet = "".join(f"constexpr int {name} = {value};\n" for name, value in sizes.items()) + _BODY

    resident = max(1, min(_RESIDENT, _SHARED_BYTES // (_bytes(nv, rows) + 1024)))

    @wp.func_native(snippet)  # type: ignore[untyped-decorator]
    def newton(engine: _Problem, world: int, tid: int): ...  # type: ignore[no-untyped-def]

    @wp.kernel(module="unique", enable_backward=False, launch_bounds=(_THREADS, resident))  # type: ignore[untyped-decorator]
    def kernel(problem: _Problem):  # type: ignore[no-untyped-def]
        world, tid = wp.tid()  # type: ignore[misc]
        newton(problem, world, tid)

    return kernel
