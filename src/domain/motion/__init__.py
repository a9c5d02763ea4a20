"""Reference motions: clips, the device table they are looked up in, where episodes start, and the tracking command.

Everything here is tensors and names; who reads files hands over ``MotionClip``.
"""
