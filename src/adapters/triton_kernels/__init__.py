"""The learners' costly operations as Triton kernels, one pass over memory each.
May use Triton, which comes with Torch where there is a CUDA or ROCm device.
"""
