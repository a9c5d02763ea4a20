"""The ``unilab`` command: one module a command, its heavy imports inside the function that runs it.
May use Typer and rich; asks the container for everything else.
"""
