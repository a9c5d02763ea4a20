"""The Go2 model reproduces published rewards of the flat walking task, so it is the robot they were taken on."""

import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from application.robots import go2
from application.robots.scene import SceneModel

COMMAND = (0.6, 0.1, 0.3)
CONTROL_STEP = 0.02
PHASE_OFFSETS = {"FL": 0.0, "FR": 0.5, "RL": 0.5, "RR": 0.0}
TOLERANCE = 1e-5
TABLE = {
    1: {
        "lin": 0.48020,
        "ang": 0.16293,
        "vz": -0.01466,
        "wxy": -0.00409,
        "height": -0.00016,
        "rate": -0.00030,
        "default": -0.04380,
        "contact": 0.24000,
        "swing": 0.00000,
    },
    5: {
        "lin": 0.41443,
        "ang": 0.16301,
        "vz": -0.04622,
        "wxy": -0.00072,
        "height": -0.00975,
        "rate": -0.00000,
        "default": -0.06834,
        "contact": 0.12000,
        "swing": 1.05520,
    },
}
TOTAL = {1: 0.016403, 5: 0.032552}
ROOT_Z = {1: 0.30126, 5: 0.30987}


class Walk:
    """One Go2 that starts at its keyframe and follows the action wave of the table, 0.02 s a step."""

    def __init__(self, scene: SceneModel) -> None:
        self.index = scene.index
        self.robot = scene.index.entities["robot"]
        spec = mujoco.MjSpec.from_string(scene.mjcf)
        spec.discard_visual()
        self.model = spec.compile()
        # The walking task writes its nominal damping into the servo, on top of the joint damping.
        self.model.actuator_biasprm[:, 2] = -0.5
        self.data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        mujoco.mj_forward(self.model, self.data)
        self.default = np.array(self.robot.default_joint_pos)
        self.action = self.last_action = np.zeros(12)
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        self.last_action, self.action = self.action, 0.1 * np.sin(np.arange(12) + 0.1 * self.steps)
        target = dict(zip(self.robot.joints, self.default + 0.25 * self.action, strict=True))
        self.data.ctrl[:] = [target[joint] for joint in self.robot.actuator_joint]
        mujoco.mj_step(self.model, self.data, nstep=2)

    def read(self, sensor: str) -> NDArray[np.float64]:
        slot = self.index.sensors[sensor]
        values: NDArray[np.float64] = self.data.sensordata[slot.adr : slot.adr + slot.dim]
        return values

    def rewards(self) -> dict[str, float]:
        vx, vy, vz = self.read("local_linvel")
        wx, wy, wz = self.read("gyro")
        joints = self.data.qpos[self.robot.qpos_adr :] - self.default
        phase = {leg: (2.0 * CONTROL_STEP * self.steps + offset) % 1.0 for leg, offset in PHASE_OFFSETS.items()}
        agrees = [(self.read(f"{leg}_foot_contact")[0] > 0.1) == (phase[leg] < 0.6) for leg in go2.LEGS]
        lifted = [math.exp(-((self.read(f"{leg}_pos")[2] - 0.1) ** 2) / 0.01) * (phase[leg] >= 0.6) for leg in go2.LEGS]
        return {
            "lin": math.exp(-((COMMAND[0] - vx) ** 2 + (COMMAND[1] - vy) ** 2) / 0.5),
            "ang": 0.2 * math.exp(-((COMMAND[2] - wz) ** 2) / 0.5),
            "vz": -5.0 * vz**2,
            "wxy": -0.1 * (wx**2 + wy**2),
            "height": -100.0 * (self.data.qpos[2] - 0.3) ** 2,
            "rate": -0.005 * float(np.square(self.action - self.last_action).sum()),
            "default": -0.1 * float(np.abs(joints).sum()),
            "contact": 0.24 * sum(agrees) / 4,
            "swing": 4.0 * sum(lifted) / 4,
        }


@pytest.mark.parametrize("step", [1, 5])
def test_rewards_of_the_flat_walk_match_the_published_table(step: int) -> None:
    walk = Walk(go2.build(timestep=0.01))

    for _ in range(step):
        walk.step()

    rewards = walk.rewards()
    assert rewards == pytest.approx(TABLE[step], abs=TOLERANCE, rel=0)
    assert sum(rewards.values()) * CONTROL_STEP == pytest.approx(TOTAL[step], abs=1e-6, rel=0)
    assert walk.data.qpos[2] == pytest.approx(ROOT_Z[step], abs=TOLERANCE, rel=0)
