"""The list of tasks: a new one is added here."""

from collections.abc import Mapping

from application.tasks import cartpole, g1_motion, g1_walk, go2_flat
from application.tasks.task import TaskEntry

TASKS: Mapping[str, TaskEntry] = {
    entry.name: entry
    for entry in (
        cartpole.BALANCE,
        cartpole.SWINGUP,
        go2_flat.GO2_FLAT,
        g1_walk.G1_WALK,
        g1_motion.G1_MOTION,
    )
}
