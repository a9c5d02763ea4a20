"""Learner devices behind the transfer port: CUDA (ROCm is the same code) and MPS."""
