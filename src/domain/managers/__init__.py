"""The nine managers of an environment, and what their terms are made of: noise, delay and history.

A manager owns named terms and the order in which they run; it never knows a simulator.
"""
