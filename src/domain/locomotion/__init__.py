"""Terms for legged robots that walk: gait clock, feet, base height.

Feet are named by their sensors; nothing here knows how many legs a robot has.
"""
