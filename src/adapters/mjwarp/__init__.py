"""The GPU physics backend: MuJoCo Warp behind the domain's physics port; a few worlds also run on Warp's CPU device.
May use mujoco, warp and mujoco_warp; only `capabilities` and `capacities` load without them."""
