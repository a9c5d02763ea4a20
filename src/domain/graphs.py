"""Records device work as a CUDA graph, which is then one launch."""

from collections.abc import Callable

import torch


def capture(
    work: Callable[[], None], generator: torch.Generator, *, sharing: torch.cuda.CUDAGraph | None = None
) -> torch.cuda.CUDAGraph:
    """Record ``work`` as a CUDA graph; a replay draws new numbers from ``generator`` as an eager call would.

    Args:
        work: Must have run before, must not read the device, and must keep every tensor that it works on.
        generator: What ``work`` draws from.
        sharing: A graph that never runs at the same time: both use one pool of memory for what they forget.
    """
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    pool = None if sharing is None else sharing.pool()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        work()
    return graph
