"""The CPU physics backend: MuJoCo's own batch of simulations behind the domain's physics port.
May use mujoco and NumPy; only `capabilities` and `affinity` load without them."""
