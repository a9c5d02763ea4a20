"""Where a process starts: commands, the composition of a run, and the container that chooses implementations.
May use everything inward, Typer and dependency-injector; holds no maths.
"""
