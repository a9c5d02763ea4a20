"""Use cases (train, evaluate, doctor), task and robot declarations, configuration, and ports of the outside.

Knows the domain and pydantic; no simulator, no file format, no command line.
"""
