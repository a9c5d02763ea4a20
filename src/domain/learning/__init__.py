"""Learners of the off-policy family: networks, losses, optimisers and their captured update cycles.
May use Torch on the learner's device; reads batches of `domain.replay`, knows no environment, process or file.
"""
