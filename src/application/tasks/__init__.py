"""Task declarations: which robot, which managers and terms, and the values of each algorithm.

Plain data and functions; nothing here builds or steps anything.
"""
