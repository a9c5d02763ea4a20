"""Pictures and videos of a recorded motion, drawn off screen by MuJoCo's own renderer.
May use mujoco, NumPy and imageio; loads OpenGL only when something is recorded."""
