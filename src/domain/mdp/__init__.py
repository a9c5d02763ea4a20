"""Terms that any robot can use: actions, commands, observations, rewards, terminations, events.

A term reads the environment's view; only events and commands write, through a transaction.
"""
