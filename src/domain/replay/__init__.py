"""Replay rows of off-policy learners: how one is packed, and what one cycle of updates learns from.

Storage is made once and never moves; nothing here waits for the device, so all of it can be captured.
"""
