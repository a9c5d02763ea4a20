"""The collector process: an environment on the CPU, fed and emptied through shared slots; no actor, no CUDA."""
