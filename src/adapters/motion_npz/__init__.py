"""Motion files: NPZ in and out, and tables of numbers as text.

Nothing here unpickles, and nothing knows a robot: what the arrays mean is the application's business.
"""
