"""The rules of robot RL: managers, terms, env, random numbers and the physics port.

Knows torch and the standard library only; everything outside comes in through a port.
"""
