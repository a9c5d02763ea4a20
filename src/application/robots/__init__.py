"""Robots: each one's figures (a TOML data file) and the builder that turns them into MJCF text and a typed index.

Standard library and domain only; adapters compile the text themselves. To add a robot, add its data file and module.
"""
