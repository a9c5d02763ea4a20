"""Run folders on a file system: their names, what is written into them once, and how they are found again.
May use PyYAML; knows paths and plain data, no tensors.
"""
