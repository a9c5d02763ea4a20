"""Reference motions before they reach an environment: read, made, compared with the robot, checked and converted.

Files and kinematics are ports; everything else is tensors and names.
"""
