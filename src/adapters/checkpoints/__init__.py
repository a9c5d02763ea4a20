"""Checkpoint files that are whole or absent: written aside, flushed, renamed, loaded without executing code.
May use Torch's serialisation and the file system.
"""
